"""docs/az.md has the examples that `make az` runs, and its recipe is theirs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.az.examples import Group, read_groups

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/az.md").read_text("utf-8")
GROUPS = read_groups()


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.title)
def test_the_page_has_every_example_in_order(group: Group) -> None:
    assert "\n".join(each.row for each in group.examples) in PAGE


def test_the_page_has_no_other() -> None:
    assert PAGE.count("\n| `az ") + PAGE.count("\n| `storageid") + PAGE.count(
        "\n| `topicid"
    ) == sum(len(group.examples) for group in GROUPS)


def test_the_recipe_is_run() -> None:
    recipe = PAGE.partition("export REQUESTS_CA_BUNDLE")[2].partition("```")[0].splitlines()[1:]
    run = [each.command for each in GROUPS[0].examples]

    given = [
        line.replace("https://127.0.0.1:7071", "$url").replace("KEY", "$key") for line in recipe
    ]

    assert [line for line in given if line not in run] == []


def test_the_page_names_the_version_that_is_installed() -> None:
    pins = (ROOT / "tests/az/requirements.txt").read_text().splitlines()
    (version,) = [
        pin.partition("==")[2].split()[0] for pin in pins if pin.startswith("azure-cli==")
    ]

    assert f"Azure CLI {version}" in PAGE
