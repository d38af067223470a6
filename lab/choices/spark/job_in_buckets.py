"""The driver with the memory in Python, of many keys at once."""

from __future__ import annotations

import sys
from functools import partial

from lab.choices.spark.job import main
from lab.choices.spark.remember import remembered

BUCKETS = 16

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], partial(remembered, buckets=BUCKETS)))
