"""The conformance files are in their format, complete, and nobody's own."""

from __future__ import annotations

import json
from itertools import pairwise

import jsonschema
import pytest

from tests.conformance.editions import CASES, FILES, FOLDER, Case

# What issue and sources work out as examples: it must stay in the files.
WORKED = {
    ("2017", "8 attempts, and expiry at 2 hours"): 8,
    ("2019", "24 hours are 30 attempts"): 30,
    ("2020", "24 hours are 11 attempts"): 11,
    ("2023", "24 hours are 11 attempts"): 11,
    ("latest", "24 hours are 11 attempts"): 11,
    ("2023", "30 minutes and 10 attempts are 6 attempts"): 6,
    ("latest", "30 minutes and 10 attempts are 6 attempts"): 6,
    ("ns", "20 minutes: the eighth slot dead-letters"): 7,
    ("ns", "10 attempts end at 30 minutes"): 10,
}
ALWAYS = {"2019", "2020", "2023", "latest", "ns"}


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_as_the_schema_says(name: str):
    schema = json.loads((FOLDER / "editions.schema.json").read_text())

    jsonschema.validate(FILES[name], schema)


@pytest.mark.parametrize("name", FILES)
def test_no_case_has_the_name_of_another(name: str):
    names = [case.name for case in CASES if case.profile == name]

    assert len(names) == len(set(names))


def test_the_worked_examples_are_cases():
    attempts = {(case.profile, case.name): len(case.attempts) for case in CASES}

    assert {key: attempts.get(key) for key in WORKED} == WORKED


@pytest.mark.parametrize("answer", ["503", "408"])
def test_every_edition_with_minimums_has_a_case_up_to_the_end(answer: str):
    always = {case.profile for case in CASES if case.answers == (answer,) and not case.policy}

    assert always >= ALWAYS


def test_every_edition_with_five_minutes_has_a_case_up_to_the_end():
    """Under a minimum of five minutes the first waits are the same for all."""
    found = {case.profile for case in CASES if case.attempts[:4] == (0, 300, 600, 900)}

    assert found == ALWAYS


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_case_is_in_order(case: Case):
    assert case.attempts[0] == 0
    assert all(earlier < later for earlier, later in pairwise(case.attempts))
    assert case.attempts[-1] <= case.end.at
    assert all(len(values) == len(case.attempts) for values in case.headers.values())
    assert (case.end.reason is None) == (case.end.state == "delivered")
    assert (case.end.last_outcome is None) == (case.end.state == "delivered")
    assert (case.end.blob_at is None) == (case.end.state != "deadLettered")
    assert case.has_dead_letter or case.end.state != "deadLettered"
