"""Pattern variants: one closed data file each, and the model that reads them."""

from pipelines.patterns.model import (
    CANNOT,
    USES,
    Pattern,
    PatternError,
    Variant,
    json_schema,
    load,
    load_all,
    names,
    read,
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
    "engine_plans",
    "json_schema",
    "load",
    "load_all",
    "names",
    "read",
    "topics",
]
