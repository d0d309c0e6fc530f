"""docs/delivery-profiles.md tells what the table of profiles says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from shared.clock import in_words
from shared.delivery.delivery_profile import DeliveryProfile, Feature
from shared.delivery.profiles import PROFILES
from shared.http import Failure
from shared.subscriptions.destination import EndpointType

PAGE = (Path(__file__).parents[2] / "docs/delivery-profiles.md").read_text()
NONE = "\N{EN DASH}"
STATUSES = (400, 401, 403, 404, 408, 413, 414, 503)
FAILURES = {
    "no answer in time": Failure.TIMED_OUT,
    "no connection": Failure.SOCKET,
    "unknown name": Failure.RESOLUTION,
    "no request can be made": Failure.UNSENDABLE,
    "no token for the webhook": Failure.UNAUTHORIZED,
    "Entra ID does not answer": Failure.NO_AUTHORITY,
}


def tables() -> list[list[list[str]]]:
    """Return the page's tables, as rows of cells; their rulers left out."""
    found: list[list[list[str]]] = [[]]
    for line in PAGE.splitlines():
        if line.startswith("|"):
            found[-1].append([cell.strip() for cell in line.strip("|").split("|")])
        elif found[-1]:
            found.append([])
    return [[row for row in table if set(row[0]) != {"-"}] for table in found if table]


def ranged(default: str, least: str, most: str) -> str:
    return f"{default}, fixed" if least == most else f"{default} ({least} to {most})"


def feature(wanted: Feature) -> Callable[[DeliveryProfile], str]:
    return lambda profile: "yes" if wanted in profile.features else NONE


def success(profile: DeliveryProfile) -> str:
    codes = sorted(profile.success_codes)
    return "200 to 204" if codes == list(range(200, 205)) else ", ".join(map(str, codes))


def attempts(profile: DeliveryProfile) -> str:
    limit = profile.limits.attempts
    return ranged(*map(str, limit)) if limit else "no limit"


def with_dead_letters(wait: Callable[[DeliveryProfile], timedelta]) -> Callable[..., str]:
    return lambda row: in_words(wait(row)) if Feature.DEAD_LETTERS in row.features else NONE


def maybe(wait: timedelta | None) -> str:
    return in_words(wait) if wait else NONE


RULES: dict[str, Callable[[DeliveryProfile], str]] = {
    "acknowledgement timeout": lambda row: in_words(row.acknowledgement_timeout),
    "success": success,
    "retries after": lambda row: ", ".join(map(in_words, row.schedule.steps)),
    "then every": lambda row: maybe(row.schedule.tail),
    "counted from": lambda row: "publish" if row.schedule.by_age else "the failure",
    "time to live": lambda row: ranged(*map(in_words, row.limits.time_to_live)),
    "attempts": attempts,
    "a late success counts for": lambda row: maybe(row.late_answers_for),
    "probation": lambda row: "yes" if row.probation else NONE,
    "delayed delivery": lambda row: "yes" if row.delayed_delivery else NONE,
    "dead letters": feature(Feature.DEAD_LETTERS),
    "blob after the last attempt": with_dead_letters(lambda row: row.dead_letter_delay),
    "a failing blob is tried for": with_dead_letters(lambda row: row.dead_letter_keep),
    "output batching": feature(Feature.OUTPUT_BATCHING),
    "custom delivery headers": feature(Feature.CUSTOM_HEADERS),
}


def status_cell(profile: DeliveryProfile, endpoint: EndpointType, status: int) -> str:
    rules = profile.endpoints[endpoint]
    wait = rules.minimum_delay.get(status, rules.other_minimum_delay)
    least = f"≥ {in_words(wait)}" if wait else "schedule"
    if status not in rules.never_retried:
        return least
    return f"end; {least} without dead letters" if profile.final_only_with_dead_letter else "end"


def failure_cell(profile: DeliveryProfile, endpoint: EndpointType, failure: Failure) -> str:
    return "end" if failure in profile.endpoints[endpoint].final_failures else "schedule"


def answers(endpoint: EndpointType) -> list[list[str]]:
    """Return a row for each status, and one for the failures that have the same rules."""
    rows = [
        [str(status), *(status_cell(row, endpoint, status) for row in PROFILES.values())]
        for status in STATUSES
    ]
    rows.append(["others", *(status_cell(row, endpoint, 500) for row in PROFILES.values())])
    failures: dict[tuple[str, ...], list[str]] = {}
    for name, failure in FAILURES.items():
        cells = tuple(failure_cell(row, endpoint, failure) for row in PROFILES.values())
        failures.setdefault(cells, []).append(name)
    return rows + [[", ".join(names), *cells] for cells, names in failures.items()]


def differing_answers() -> list[list[str]]:
    """Return the rows in which Azure resources have other rules than webhooks."""
    webhooks = answers(EndpointType.WEBHOOK)
    return [row for row in answers(EndpointType.AZURE) if row not in webhooks]


def rendered(rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


HEAD = ["", *PROFILES]
EXPECTED = {
    "rules": [HEAD, *([name, *map(rule, PROFILES.values())] for name, rule in RULES.items())],
    "answers of webhooks": [HEAD, *answers(EndpointType.WEBHOOK)],
    "answers of Azure resources": [HEAD, *differing_answers()],
    "probation": [
        ["outcome", "nothing is sent for"],
        *([f"`{each}`", in_words(wait)] for each, wait in PROFILES["latest"].probation.items()),
    ],
}


@pytest.mark.parametrize("name", EXPECTED)
def test_the_page_says_what_the_profiles_say(name: str):
    assert EXPECTED[name] in tables(), f"the table should be\n{rendered(EXPECTED[name])}"


def test_every_status_with_a_rule_of_its_own_is_on_the_page():
    ruled = {
        status
        for row in PROFILES.values()
        for rules in row.endpoints.values()
        for status in rules.never_retried | set(rules.minimum_delay)
    }

    assert ruled <= set(STATUSES)


def test_all_editions_with_probation_have_the_same():
    tables_of_probation = [row.probation for row in PROFILES.values() if row.probation]

    assert all(each == tables_of_probation[0] for each in tables_of_probation)
