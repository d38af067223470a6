"""The pictures of the README: there, and small."""

from __future__ import annotations

import re

import pytest

from lab.pictures import BYTES_MOST, FOLDER, SCHEMES
from millrace.settings import PROJECT


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_readme_shows_a_small_picture_of_each_scheme(scheme: str) -> None:
    path = FOLDER / f"live-{scheme}.webp"
    assert re.search(rf'src(set)?="{path.relative_to(PROJECT)}"', (PROJECT / "README.md").read_text(encoding="utf-8"))
    assert 20_000 < path.stat().st_size <= BYTES_MOST
