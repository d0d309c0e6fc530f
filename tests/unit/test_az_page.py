"""docs/az.md names the commands that `make az` runs, and its recipe is theirs."""

from __future__ import annotations

import re
from pathlib import Path

from tests.az.examples import read_groups

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/az.md").read_text("utf-8")
GROUPS = read_groups()
EXAMPLES = [example for group in GROUPS for example in group.examples]
#: A command's last words, such as `key list`; no option and no setting.
VERB = re.compile(r"`([a-z][a-z-]*(?: [a-z-]+)?)`")


def test_the_page_names_every_command_that_is_run_and_no_other() -> None:
    rows = re.findall(r"^\| `(az[a-z -]*)` \| (`.+) \|$", PAGE, re.MULTILINE)
    words = [re.search(r"\baz((?: [a-z][a-z-]*)+)", each.command) for each in EXAMPLES]
    run = {each[0] for each in words if each}

    named = {f"{first} {verb}" for first, text in rows for verb in VERB.findall(text)}
    refused = {"az eventgrid domain create", "az resource list"}
    assert named == run - refused


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
