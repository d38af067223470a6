"""The numbers of the flood rules: the only place that holds them."""

WINDOW_MS = 3_000
"""Requests are counted in windows of this size, aligned to 1970."""
HARMLESS = 30
"""So many refused requests in a window set off nothing; one more does."""
