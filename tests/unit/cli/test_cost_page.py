"""The figures in docs/cost.md are those of today's model, prices and measurement."""

from __future__ import annotations

from cli.costs.page import PAGE, rendered


def test_the_tables_are_what_the_model_says():
    """Red? ``python -m cli.costs.page`` writes them anew; see that the words still hold."""
    written = PAGE.read_text()

    assert written.count("<!-- end -->") > 1
    assert rendered(written) == written
