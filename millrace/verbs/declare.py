"""`declare` writes what Terraform reads: what each pattern declares, and the local stack with its ports as offsets."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from millrace import project, stack
from millrace.errors import UsageError
from millrace.patterns import Variant, engine_plans, files, load_all, require_folders
from millrace.patterns.access import access, outsiders, transactional_ids
from millrace.patterns.plan import state_topics, table_of
from millrace.settings import PORT_BASES, Settings
from millrace.stack.services import DEFAULT, PROFILES, needed, services
from millrace.stores.changes import Change
from millrace.target import Target
from millrace.verbs import observation_server
from millrace.verbs.provision import wanted_tables, wanted_topics
from millrace.whole_files import write_whole

FILE = f"{project.FOLDER}/declared.json"
VERSION = 2
"""Of the file's form; terraform/modules/declared reads this one."""


def declare(settings: Settings, *, plan: bool = False) -> Change:
    """Write the file of the project; with `plan` only compare it."""
    path, text = settings.project / FILE, json.dumps(declared(settings), indent=1) + "\n"
    before = path.read_text(encoding="utf-8") if path.exists() else None
    if text == before:
        return Change("file", FILE, "keep", "as declared")
    if not plan:
        write_whole(path, text)
        path.chmod(0o644)  # a source file like the patterns
    return Change("file", FILE, "create" if before is None else "change")


def declared(settings: Settings) -> dict[str, Any]:
    """The content of the file: nothing in it depends on the machine."""
    if settings.patterns:
        raise UsageError(f"MILLRACE_PATTERNS={settings.patterns}: Terraform reads pipelines/*/patterns only; unset it")
    require_folders()
    variants = load_all()
    root = settings.project / project.FOLDER
    return {
        "version": VERSION,
        # Terraform refuses the file once another pattern file is there.
        "files": {
            path.relative_to(root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(files().values())
            if path.is_relative_to(root)  # those of installed packages change with the package
        },
        "stack": _stack(settings),
        "patterns": {variant.name: _pattern(settings, variant) for variant in variants},
    }


def _pattern(settings: Settings, variant: Variant) -> dict[str, Any]:
    users, wanted = access(variant), {topic.name: topic for topic in wanted_topics(variant)}
    tables = wanted_tables(variant)
    # Terraform puts the addresses of its target in front.
    nowhere = Target(
        settings,
        dict.fromkeys(("KAFKA_BOOTSTRAP", "HDFS_URI", "WEBHDFS_URL", "HBASE_THRIFT_HOST"), "")
        | {"HBASE_THRIFT_PORT": "0"},
    )
    plans = engine_plans(variant, 1, nowhere.bootstrap, nowhere.checkpoints, nowhere.stores(variant))
    return {
        "outsiders": outsiders(variant),
        "services": sorted(needed(variant.engines, variant.stores)),
        "transactional_ids": transactional_ids(plans),
        "topics": {
            kind: {
                "name": variant.topic(kind),
                "partitions": wanted[variant.topic(kind)].partitions,
                "config": dict(wanted[variant.topic(kind)].configs),
                "readers": sorted(users[kind].readers),
                "writers": sorted(users[kind].writers),
            }
            for kind in users
        }
        | {
            name: {
                "name": name,
                "partitions": wanted[name].partitions,
                "config": dict(wanted[name].configs),
                "readers": [f"{variant.name}-{plan.engine}"],
                "writers": [f"{variant.name}-{plan.engine}"],
            }
            for plan in plans
            for name in state_topics(plan)
        },
        "tables": {
            table.name: {"name": name, "families": tables[name]}
            for table in variant.use.tables
            if (name := table_of(variant.name, table.name)) in tables
        },
        # What a rule or table means is in the code that a job runs: another one is another deployment, not declaration.
        "jobs": {plan.engine: json.loads(replace(plan, versions={}, tables={}).to_json()) for plan in plans},
    }


def _stack(settings: Settings) -> dict[str, Any]:
    # From port 0 on, each port is its offset.
    settings = replace(settings, port_base=0)
    plain = _addresses(settings, ())
    return {
        "port_base": {"least": PORT_BASES[0], "most": PORT_BASES[-1]},
        "observer": settings.port(observation_server.NAME),
        "services": sorted(services(settings)),
        "default_services": sorted(DEFAULT),
        "addresses": plain,
        # Profile -> the addresses that it changes.
        "profiles": {
            profile: {
                name: address for name, address in _addresses(settings, [profile]).items() if address != plain.get(name)
            }
            for profile in sorted(PROFILES)
        },
        "web_pages": {
            name: _with_offsets(pages[0])
            for name, service in sorted(services(settings).items())
            if (pages := [_origin(server.web) for server in service.servers if server.web])
        },
    }


def _addresses(settings: Settings, profiles: Sequence[str]) -> dict[str, Any]:
    """The addresses of servers; paths and what is the settings' own depend on the machine."""
    return {
        name: _with_offsets(address)
        for name, address in stack.addresses(settings, profiles).items()
        if name not in settings.environment() and not address.startswith("/")
    }


def _with_offsets(address: str) -> Mapping[str, Any]:
    """An address as a format of Terraform's, and the offsets of the ports in it."""
    port = r"(?<=:)\d+|^\d+$"
    return {"format": re.sub(port, "%d", address), "ports": [int(each) for each in re.findall(port, address)]}


def _origin(url: str) -> str:
    return urlsplit(url)._replace(path="").geturl()
