"""JSON in files of the state folder: a hand, or a crash, may have left another shape than what was written."""

from __future__ import annotations

import json
import math
from typing import Any

from pydantic import TypeAdapter, ValidationError


class DamagedError(ValueError):
    """JSON that is cut, or has another shape than what was written."""


def read(content: bytes, shape: TypeAdapter[Any]) -> Any:
    """JSON as it was written, if it has this shape."""
    try:
        found = json.loads(content, parse_float=_finite, parse_constant=_finite)
        shape.validate_python(found)
    except ValidationError as invalid:
        first = invalid.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise DamagedError(f"{where}: {first['msg']}" if where else first["msg"]) from None
    except (ValueError, RecursionError) as error:
        raise DamagedError(str(error)) from None
    return found


def _finite(text: str) -> float:
    if not math.isfinite(number := float(text)):
        raise ValueError(f"{text} is no finite number")
    return number
