"""docs/configuration.md names the functions that templates can use; its example works."""

from __future__ import annotations

import re
from pathlib import Path

from cli.configuration import read_configuration
from cli.configuration.template.scope_functions import ALL_FUNCTIONS
from tests import bicep

PAGE = (Path(__file__).parents[2] / "docs/configuration.md").read_text("utf-8")


def test_the_page_names_every_function_once() -> None:
    table = PAGE.partition("| kind | functions |\n|---|---|\n")[2].partition("\n\n")[0]

    named = re.findall(r"`(\w+)`", table)
    assert sorted(named) == sorted(each.name for each in ALL_FUNCTIONS.values())


@bicep.needs_compiler
def test_the_example_is_compiled_and_read(tmp_path: Path) -> None:
    section = PAGE.partition("## Bicep and ARM templates\n")[2]
    source, commands = re.findall(r"```(?:bicep|sh)\n(.*?)```", section, re.DOTALL)[:2]
    (tmp_path / "main.bicep").write_text(source)
    bicep.run(tmp_path, "build", "main.bicep")

    (given,) = re.findall(
        r"^pushgrid apply main.json --parameter (\w+)=(.+)$", commands, re.MULTILINE
    )
    found = read_configuration(tmp_path / "main.json", dict([given])).resources

    assert [each.id.name for each in found] == ["orders", "orders/crm"]
    destination = found[1].document["properties"]["destination"]["properties"]
    assert destination == {"endpointUrl": "http://127.0.0.1:9000/"}
