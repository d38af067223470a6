"""Pattern variants: one closed data file each, and the model that reads them."""

from millrace.patterns.model import (
    Pattern,
    PatternError,
    Variant,
    files,
    is_name,
    json_schema,
    load,
    load_all,
    names,
    read,
    readable,
    require_folders,
    require_known,
)
from millrace.patterns.plan import EnginePlan, Stores, engine_plans, topics

__all__ = [
    "EnginePlan",
    "Pattern",
    "PatternError",
    "Stores",
    "Variant",
    "engine_plans",
    "files",
    "is_name",
    "json_schema",
    "load",
    "load_all",
    "names",
    "read",
    "readable",
    "require_folders",
    "require_known",
    "topics",
]
