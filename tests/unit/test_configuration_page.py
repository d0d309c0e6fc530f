"""docs/configuration.md names the functions that templates can use."""

from __future__ import annotations

import re
from pathlib import Path

from cli.configuration.template.scope import ALL_FUNCTIONS

PAGE = (Path(__file__).parents[2] / "docs/configuration.md").read_text("utf-8")


def test_the_page_names_every_function_once() -> None:
    table = PAGE.partition("| kind | functions |\n|---|---|\n")[2].partition("\n\n")[0]

    named = re.findall(r"`(\w+)`", table)
    assert sorted(named) == sorted(each.name for each in ALL_FUNCTIONS.values())
