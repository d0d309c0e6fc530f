"""The figures in the documents are those of today's model, prices and measurement."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.costs.page import PAGES, rendered


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_the_tables_are_what_the_model_says(page: Path):
    """Red? ``python -m cli.costs.page`` writes them anew; see that the words still hold."""
    written = page.read_text()

    assert "<!-- end -->" in written
    assert rendered(written) == written
