"""The place of a declaration, for its errors."""

from __future__ import annotations

import contextlib
import dataclasses
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import Any

from millrace.rules.expressions import RuleError

_HAS = (
    "a condition has fields, constants, + - *, km(), comparisons and & | ~; send what else it needs as a field of the "
    "event"
)
_HERE = Path(__file__).parent
_BETWEEN = {contextlib.__file__, dataclasses.__file__, "<string>"}
"""Files of the frames between a declaration and this package; a dataclass's own `__init__` has none."""


@contextmanager
def placed(of: str, function: Callable[..., Any] | None = None) -> Iterator[None]:
    """Add to an error what is declared and its file and line: those of a lambda, or of the declaration."""
    try:
        yield
    except (ValueError, TypeError, AttributeError) as error:
        if str(error).startswith(f"{of} ("):
            raise  # a lambda inside this declaration has the better place
        code = getattr(function, "__code__", None)
        place = _line(code.co_filename, code.co_firstlineno) if code else _declared_at()
        remedy = f"; {_HAS}" if function and _is_of_python(error) else ""
        raise RuleError(f"{of} ({place}): {str(error).removeprefix(f'{of}: ')}{remedy}") from None


def _is_of_python(error: Exception) -> bool:
    """Whether Python refused what a condition does with a field; a call with other arguments is another mistake."""
    return not isinstance(error, ValueError) and not re.search("(positional|keyword) argument", str(error))


def _declared_at() -> str:
    frame = sys._getframe(1)
    while frame.f_back and (frame.f_code.co_filename in _BETWEEN or Path(frame.f_code.co_filename).parent == _HERE):
        frame = frame.f_back
    return _line(frame.f_code.co_filename, frame.f_lineno)


def _line(file: str, number: int) -> str:
    """The line, and the file in its folder: each use has a rules.py."""
    return f"{PurePath(*PurePath(file).parts[-2:])}, line {number}"
