"""`init` writes a use that runs, and around the first one a project: DAG files, Terraform, Prometheus, a test."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from keyword import iskeyword
from pathlib import Path

from millrace import project
from millrace.errors import UsageError
from millrace.patterns import files, is_name
from millrace.project import ProjectError
from millrace.settings import PACKAGE, Settings
from millrace.stores.changes import Change, pending
from millrace.verbs.contracts import contracts
from millrace.verbs.declare import declare

STARTER = PACKAGE / "starter"
NAME, MODULE, CONSTANT = "my-use", "my_use", "MY_USE"
"""The use of the starter, in its three spellings."""
OF_USE = ("pipelines", "tests")
OF_PROJECT = {"README.md": "README.md", "gitignore": ".gitignore"}
WHOLE = {
    "dags": ("dags",),
    "terraform": ("terraform/local", "terraform/modules"),
    **{each: (each,) for each in ("docs/runbook", "infra/prometheus", "infra/grafana")},
}
"""Folders that a project has or has not: those of the starter are links to the clone's."""
_OUTCOME = re.compile(r"\n## Outcome\n.*", re.DOTALL)
"""The end of a runbook page: what was measured here, with links to records that a project does not have."""
SOURCES = (".md", ".py", ".json", ".tf", ".yml")


def init(folder: Path, name: str) -> list[Change]:
    """Write a use into a project; what the project has of its own stays as it is."""
    module = name.replace("-", "_")
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name) or not is_name(name) or iskeyword(module):
        raise UsageError(
            f"'{name}' cannot name a use: write small letters, digits and single dashes, 64 characters at most, "
            "a letter first, as in my-use, and no keyword of Python"
        )
    project.enter(folder)
    texts = dict(_of_use(name))
    _require_free(folder, name, [folder / place for place in texts])
    texts |= {place: text for place, text in _of_project(name) if not (folder / place).exists()}
    for place, text in texts.items():
        path = folder / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    project.enter(folder)
    changes = [Change("file", place, "create") for place in sorted(texts)]
    return changes + pending([*contracts(), declare(Settings.read(os.environ))])


def _require_free(folder: Path, name: str, paths: list[Path]) -> None:
    use = folder / project.FOLDER / name.replace("-", "_")
    for path in (use, *paths):
        if path.exists():
            raise ProjectError(f"{path} exists; choose another name than '{name}', or move it away")
    if name in project.uses():
        raise ProjectError(f"{project.use_folder(name)} has a use '{name}'; choose another name")
    if name in files():
        raise ProjectError(f"{files()[name]} is a pattern '{name}'; choose another name")


def _of_use(name: str) -> Iterator[tuple[str, str]]:
    for top in OF_USE:
        for path in sorted((STARTER / top).rglob("*.*")):
            if path.suffix != ".pyc":
                yield _renamed(path.relative_to(STARTER).as_posix(), name), _renamed(path.read_text("utf-8"), name)


def _of_project(name: str) -> Iterator[tuple[str, str]]:
    for source, target in OF_PROJECT.items():
        yield target, _renamed((STARTER / source).read_text("utf-8"), name)
    for top, parts in WHOLE.items():
        if not (project.root() / top).exists():
            for part in parts:
                yield from _copied(part)
    if not (project.root() / "terraform").exists():
        yield "terraform/local/terraform.tfvars", f'patterns = ["{name}"]\n'


def _copied(part: str) -> Iterator[tuple[str, str]]:
    for path in sorted((STARTER / part).rglob("*")):
        place = path.relative_to(STARTER)
        if path.suffix in SOURCES and not any(each == "tests" or each.startswith(".") for each in place.parts):
            yield place.as_posix(), _OUTCOME.sub("", path.read_text("utf-8"))


def _renamed(text: str, name: str) -> str:
    module = name.replace("-", "_")
    return text.replace(NAME, name).replace(MODULE, module).replace(CONSTANT, module.upper())
