"""The figures in the documents are those of today's model, prices and measurement."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cli.costs.data import prices
from cli.costs.page import PAGES, plain, rendered
from cli.program import main


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_the_tables_are_what_the_model_says(page: Path):
    """Red? ``python -m cli.costs.page`` writes them anew; see that the words still hold."""
    written = page.read_text()

    assert "<!-- end -->" in written
    assert rendered(written) == written


def test_the_example_is_what_its_command_prints(capsys: pytest.CaptureFixture[str]):
    command, output = re.findall(r"```(?:sh)?\n(.*?)\n```", PAGES[0].read_text(), re.DOTALL)[:2]

    assert main(command.split("-m cli ")[1].split()) == 0

    assert capsys.readouterr().out.strip() == output


def test_the_page_shows_every_price():
    page = PAGES[0].read_text()

    for each in prices().values():
        assert f"| {each.meter} | {plain(each.price)} for " in page
