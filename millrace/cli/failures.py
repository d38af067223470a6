"""How a failed verb ends: one line for people, one JSON object for programs, and an exit code."""

from __future__ import annotations

import errno
import os
import re
from dataclasses import dataclass

import typer
from typer.exceptions import TyperException

FAILED, USAGE, INTERRUPTED = 1, 2, 130
CLIENTS = {
    **{"hdfs": "HDFS", "happybase": "HBase", "thriftpy2": "HBase"},
    **{"kafka": "Kafka", "cimpl": "Kafka", "confluent_kafka": "Kafka"},
    **{"requests": "an HTTP server", "urllib": "an HTTP server", "urllib3": "an HTTP server"},
}
"""By the module of a client's errors: not imported here, for they take long to import."""


@dataclass(frozen=True)
class Failure:
    """Why a verb failed, for people and for programs."""

    message: str
    kind: str
    exit: int = FAILED


def failure(error: BaseException) -> Failure | None:
    """The failure for an error; None for an unexpected one."""
    # Here: an import of the patterns may be what fails.
    from millrace.errors import InfraError, UsageError
    from millrace.rules.expressions import DeclarationError

    match error:
        case KeyboardInterrupt():
            return Failure("interrupted", "interrupted", INTERRUPTED)
        case typer.Abort():
            return Failure("nothing was done", "aborted")
        case TyperException():
            return Failure(_usage(error), "usage", error.exit_code)
        case UsageError():
            return Failure(str(error), "usage", USAGE)
        case InfraError() | DeclarationError():
            return Failure(str(error), _kind(error))
        case OSError() if error.filename and error.strerror:
            is_of_stack = os.environ.get("MILLRACE_STATE", ".millrace") in str(error.filename)
            hint = "; MILLRACE_STATE sets the folder of a stack's files" if is_of_stack else ""
            return Failure(f"{error.filename}: {error.strerror}{hint}", "file")
        case OSError() if error.errno in (errno.ENOSPC, errno.EDQUOT):  # a write names no file
            return Failure(
                f"{error.strerror}; `df` shows which disk: MILLRACE_STATE sets the folder of a stack's files, "
                "MILLRACE_HOME that of downloads",
                "file",
            )
        case Exception() if library := _client_of(error):
            why = next(iter(str(error).splitlines()), "") or "no reason given"
            return Failure(
                f"{library}: {type(error).__name__}: {why[:300]}; `millrace status` shows which server does not answer",
                "unreachable",
            )
    return None


def _usage(error: TyperException) -> str:
    """The complaint of Typer on one line, with the verb whose help has the remedy."""
    what = " ".join(error.format_message().split()).rstrip(".")
    verb = ctx.command_path if (ctx := getattr(error, "ctx", None)) else "millrace"
    return f"{what[:1].lower()}{what[1:]}; see `{verb} --help`"


def _client_of(error: Exception) -> str | None:
    """The server whose client raised the error, if no store has named its address."""
    origins = {origin.__module__.partition(".")[0] for origin in type(error).__mro__} & CLIENTS.keys()
    if origins:
        return CLIENTS[min(origins)]
    return "a server" if isinstance(error, ConnectionError | TimeoutError) else None


def _kind(error: Exception) -> str:
    """TopicError -> topic, NoFileError -> no-file; any other error is `failed`."""
    words = re.findall("[A-Z][a-z]*", type(error).__name__.removesuffix("Error"))
    return "-".join(words).lower() if type(error).__name__ != "InfraError" else "failed"
