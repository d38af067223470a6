"""The library has no word of the uses that the project has."""

from __future__ import annotations

import re

import pytest

from millrace.settings import PROJECT

# Card numbers are what the library masks wherever they stand, and transactions are Kafka's.
OF_FRAUD = r"\b(customer|merchant|fraud|purchase|phone|burst|spree)s?\b|\bcards?\b(?![-_ ]number)"
OF_FLOOD = r"\b(flood|edgar|crawler|siege)s?\b"
SOURCES = (
    "**/*.py",
    "**/*.java",
    "**/*.jinja",
    "**/*.json",
    "**/*.yaml",
    "**/*.tf",
    "**/*.js",
    "**/*.html",
    "**/*.css",
)
# What `millrace init` writes links to the Terraform modules, which a test of their own reads.
FILES = sorted(path for pattern in SOURCES for path in (PROJECT / "millrace").glob(pattern) if "jars" not in path.parts)


@pytest.mark.parametrize("words", [OF_FRAUD, OF_FLOOD], ids=["fraud", "flood"])
def test_no_module_of_the_library_has_a_word_of_a_use(words: str) -> None:
    assert len(FILES) > 200
    found = [
        f"{path.relative_to(PROJECT)}:{number}: {line.strip()[:100]}"
        for path in FILES
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if re.search(words, line, re.IGNORECASE)
    ]
    assert found == []
