"""Pattern variants: one closed data file each, and the model that reads them."""

from pipelines.patterns.model import (
    CANNOT,
    USES,
    Pattern,
    PatternError,
    Variant,
    complain_unless_known,
    folder,
    is_name,
    json_schema,
    load,
    load_all,
    names,
    read,
    readable,
)
from pipelines.patterns.plan import EnginePlan, Stores, engine_plans, topics

__all__ = [
    "CANNOT",
    "USES",
    "EnginePlan",
    "Pattern",
    "PatternError",
    "Stores",
    "Variant",
    "complain_unless_known",
    "engine_plans",
    "folder",
    "is_name",
    "json_schema",
    "load",
    "load_all",
    "names",
    "read",
    "readable",
    "topics",
]
