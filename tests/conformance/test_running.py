"""Conformance cases on the running system: the local host, Azurite, subscribers on sockets."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from datetime import datetime
from itertools import pairwise
from statistics import median

import pytest
from azure.data.tables import TableServiceClient
from azure.storage.blob import BlobServiceClient

from devhost.azurite import Azurite
from devhost.process import running_host
from testbed.host_settings import host_settings
from testbed.subscriber import PATIENCE, running_subscriber
from tests.conformance.editions import Case
from tests.conformance.scaled import PLAYED, SCALE, ends_at, moment, moments
from tests.conformance.stage import STORAGE, Observed, Stage
from tests.integration.push.authority import Authority
from tests.integration.push.entra import Entra

pytestmark = pytest.mark.e2e

CLOCKS = 0.05  # seconds between readings of one clock that are taken for the same
JITTER = 0.1  # of a wait


@pytest.fixture(scope="module")
def played(
    own_azurite: Azurite, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Mapping[str, Observed]]:
    """Play all cases at the same time on one host."""
    connection, authority = own_azurite.connection_string, Authority(tmp_path_factory.mktemp("ca"))
    with (
        ExitStack() as running,
        BlobServiceClient.from_connection_string(connection) as blobs,
        TableServiceClient.from_connection_string(connection) as tables,
        Entra(authority) as entra,
    ):
        entra.seconds = 1
        container = blobs.create_container("dead")
        stage = Stage(cases=PLAYED, container=container, tables=tables, entra=entra)
        storage = running.enter_context(running_subscriber(stage.answer_put)).url
        endpoint = f"Endpoint={storage.removesuffix('/hook')}/{STORAGE}"
        settings = host_settings(
            own_azurite,
            PUSHGRID_DEADLETTER_ACCOUNTS=f"{STORAGE}=STAGE",
            STAGE=f"AccountName={STORAGE};AccountKey=a2V5;Queue{endpoint};Blob{endpoint}",
            PUSHGRID_TIME_SCALE=str(SCALE),
            PUSHGRID_WEBHOOK_CLIENT_ID="66666666-7777-8888-9999-aaaaaaaaaaaa",
            PUSHGRID_WEBHOOK_CLIENT_SECRET="s3cret-of-the-app",
            PUSHGRID_WEBHOOK_AUTHORITY=entra.url,
            REQUESTS_CA_BUNDLE=str(authority.bundle),
        )
        with running_host(settings, on_line=stage.on_line) as host:
            stage.play(host.url, max(ends_at(case) for case in PLAYED) + PATIENCE)
            yield {str(seen.case): seen for seen in stage.seen.values()}


@pytest.mark.parametrize("case", PLAYED, ids=str)
def test_attempts_come_when_they_are_due(case: Case, played: Mapping[str, Observed]):
    seen = played[str(case)]
    times = [at for at, _ in seen.attempts]
    due = moments(case)

    assert len(times) == len(due)
    for at, earliest in zip(times, due, strict=True):
        assert at >= seen.sent_at + earliest - CLOCKS


@pytest.mark.parametrize("case", PLAYED, ids=str)
def test_each_failure_plans_the_next_attempt(case: Case, played: Mapping[str, Observed]):
    """The time that the host logs with a failure; how late the attempt begins is not judged."""
    seen = played[str(case)]
    due = moments(case)

    assert len(seen.planned) >= len(due) - 1  # one more may be planned for after the end
    for number, (logged_at, next_at) in enumerate(seen.planned[: len(due) - 1]):
        wait = due[number + 1] - due[number]
        if case.answer(number + 1) == "timeout":
            wait -= case.timeout
        assert next_at >= seen.sent_at + due[number + 1] - CLOCKS
        assert next_at <= logged_at + wait * (1 + JITTER) + CLOCKS


@pytest.mark.parametrize("case", PLAYED, ids=str)
def test_requests_say_what_changes(case: Case, played: Mapping[str, Observed]):
    pushes = [push for _, push in played[str(case)].attempts]

    for name, values in case.headers.items():
        sent = [
            push.headers[name] if push else value
            for push, value in zip(pushes, values, strict=True)
        ]
        assert sent == list(values)
    assert len({push.headers["aeg-output-event-id"] for push in pushes if push}) <= 1


@pytest.mark.parametrize("case", PLAYED, ids=str)
def test_the_event_ends_as_it_should(case: Case, played: Mapping[str, Observed]):
    seen = played[str(case)]

    if case.end.state == "delivered":
        assert (seen.ended, seen.dropped, seen.blob) == (None, None, None)
        return
    assert seen.ended
    ended_at, reason = seen.ended
    assert reason == case.end.reason
    due = moment(case, case.end.at, len(case.attempts))
    assert ended_at >= seen.sent_at + due - CLOCKS
    if case.end.state == "dropped":
        assert (seen.dropped, seen.blob) == (case.end.reason, None)
    else:
        assert seen.dropped is None
        _check_blob(seen)


def _check_blob(seen: Observed) -> None:
    case = seen.case
    assert seen.blob
    found_at, document = seen.blob
    assert document["deadLetterReason"] == case.end.reason
    assert document["deliveryAttempts"] == len(case.attempts)
    assert document["lastDeliveryOutcome"] == case.end.last_outcome
    assert seen.sent_at - CLOCKS <= _unix(document["publishTime"]) <= seen.accepted_at + CLOCKS
    last = _unix(document["lastDeliveryAttemptTime"])
    before, begun = ([seen.sent_at] + [at for at, _ in seen.attempts])[-2:]
    assert before < last <= begun + CLOCKS
    assert found_at >= last + ends_at(case) - moments(case)[-1] - CLOCKS


def _unix(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def test_every_edition_is_seen_to_fail_and_to_end():
    """Ended by the limits of the retry policy; 2017 has none that could be short enough."""
    by_limits = defaultdict(set)
    for case in PLAYED:
        if len(case.attempts) > 1:
            by_limits[case.profile].add((case.end.state, case.end.reason))

    assert by_limits.pop("2017") == {("delivered", None)}
    assert set(by_limits) == {"2019", "2020", "2023", "latest", "ns"}
    for ends in by_limits.values():
        assert ends >= {
            ("deadLettered", "MaxDeliveryAttemptsExceeded"),
            ("deadLettered", "TimeToLiveExceeded"),
            ("dropped", "MaxDeliveryAttemptsExceeded"),
            ("delivered", None),
        }


def test_queues_are_played_as_azure_resources():
    played = {(case.profile, case.answers) for case in PLAYED if case.endpoint == "azure"}

    assert {"2019", "2020", "2023", "latest", "ns"} == {profile for profile, _ in played}
    assert {("ns", ("404", "200")), ("2020", ("403",)), ("latest", ("503", "200"))} <= played


def test_what_was_played(played: Mapping[str, Observed], report: Callable[[str], None]):
    late: dict[str, list[float]] = defaultdict(list)
    for seen in played.values():
        case = seen.case
        times = [at for at, _ in seen.attempts]
        for wait, planned in zip(pairwise(times), pairwise(moments(case)), strict=False):
            late[case.profile].append(wait[1] - wait[0] - (planned[1] - planned[0]))

    for profile, each in sorted(late.items()):
        cases = sum(seen.case.profile == profile for seen in played.values())
        report(
            f"conformance {profile:<6} {cases:>2} cases, {len(each):>2} retries,"
            f" late by {median(each):.1f} s (median), {max(each):.1f} s (most)"
        )
    assert sum(map(len, late.values())) >= 50
