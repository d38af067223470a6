"""Credit-card fraud: the flagship use."""

from pipelines.fraud.rules import FRAUD

__all__ = ["FRAUD"]
