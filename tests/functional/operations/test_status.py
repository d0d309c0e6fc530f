"""Status: health for everybody, metrics for the operator; and what is logged for alerts."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from unittest.mock import Mock

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pushgrid.testing.composition import InMemoryApp
from pushgrid.testing.memory import START
from shared.clock import timestamp
from shared.delivery.gate import Held
from shared.delivery.messages.message import MessagePart
from shared.delivery.outcome import EndpointAnswer, Outcome
from shared.engine.operations.activity import (
    MOST_FAILURES_READ,
    MOST_READ,
    read_activities,
)
from shared.engine.operations.status import LATE
from shared.engine.operations.subscription_state import held_subscriptions
from shared.engine.ports import STATE, Queue, Table
from shared.engine.replaying.job import JobState
from shared.engine.timers.queue_watch import WatchQueues
from shared.engine.timers.timer_runs import (
    Job,
    JobsFailed,
    Timer,
    last_runs,
)
from shared.errors import StorageUnavailable
from shared.http import HttpAnswer, HttpRequest
from shared.metrics import DEFINITIONS, CountRow, Metric, Series, Span, Sum
from tests.builders import a_message, a_minute, a_record, a_replay, an_outcome, encode
from tests.functional.deployment import Deployment, Logged
from tests.functional.manage.arm_api import CRM, ORDERS, ArmApi, hook

KEY = InMemoryApp.admin_key
NO_TIME, MINUTE, HOUR = timedelta(), timedelta(minutes=1), timedelta(hours=1)
LATE_MESSAGE = "the oldest message in deliveries is late"
POISON = "retries-poison holds messages"
RUNS = Table.TOPICS, "state"


def timer(app: Deployment, name: str, jobs: dict[str, Job] | None = None) -> Timer:
    return Timer(
        name=name,
        jobs=jobs or {},
        state=app.resources,
        clock=app.clock,
        monotonic=app.clock.monotonic,
    )


def get(app: InMemoryApp, what: str, key: str = KEY, method: str = "GET") -> HttpAnswer:
    return app.status.run(
        HttpRequest(
            method=method,
            url=f"https://host.example/status/{what}",
            headers={"authorization": f"Bearer {key}"} if key else {},
            params={"what": what},
        )
    )


def health(app: InMemoryApp, status: int = 200) -> Any:
    """Ask as anybody may."""
    answer = get(app, "health", key="")
    assert answer.status == status
    return json.loads(answer.body)


def troubles(app: InMemoryApp) -> Any:
    return json.loads(get(app, "topics").body)["troubles"]


def samples(app: InMemoryApp) -> dict[tuple[str, ...], float]:
    """Read the metrics as Prometheus does."""
    answer = get(app, "metrics")
    assert (answer.status, answer.headers["Content-Type"]) == (
        200,
        "text/plain; version=0.0.4; charset=utf-8",
    )
    return {
        (each.name, *each.labels.values()): each.value
        for family in text_string_to_metric_families(answer.body.decode())
        for each in family.samples
    }


def test_health_of_a_new_deployment(app: Deployment) -> None:
    found = health(app)

    assert (found["status"], found["reasons"], found["storage"]) == ("healthy", [], "reachable")
    assert found["queues"]["retries"] == {"messages": 0, "oldestSeconds": None}
    assert found["timers"] == {}


@pytest.mark.parametrize(
    ("queue", "message", "wait", "age", "oldest", "reasons"),
    [
        (Queue.DELIVERIES, a_message(), NO_TIME, LATE + MINUTE, 960.0, [LATE_MESSAGE]),
        (Queue.RETRIES, a_message(due=START + HOUR), NO_TIME, HOUR + MINUTE, 60.0, []),
        (Queue.WAITING, a_message(), HOUR, LATE + MINUTE, None, []),
        (Queue.RETRIES_POISON, a_message(), NO_TIME, NO_TIME, 0.0, [POISON]),
    ],
    ids=["late", "late only from when it is due", "hidden", "poison"],
)
def test_what_waits_is_reported_and_no_reason_to_restart(
    app: Deployment,
    queue: Queue,
    message: MessagePart,
    wait: timedelta,
    age: timedelta,
    oldest: float | None,
    reasons: list[str],
) -> None:
    (text,) = encode(message)
    app.queues.put(queue, text, wait)
    app.clock.advance(age)

    found = health(app)

    assert found["queues"][queue] == {"messages": 1, "oldestSeconds": oldest}
    assert (found["status"], found["reasons"]) == ("degraded" if reasons else "healthy", reasons)


@pytest.mark.parametrize("method", ["peek", "list"])
def test_storage_that_fails_is_unhealthy(app: Deployment, method: str) -> None:
    (app.queues if method == "peek" else app.resources).fail_next(method)

    assert health(app, 503) == {
        "status": "unhealthy",
        "reasons": ["storage does not answer"],
        "storage": "unreachable",
    }


def test_a_store_that_stores_nothing_is_unhealthy_though_it_answers(app: Deployment) -> None:
    """Its own sentence stays with the server's readiness: anybody may ask for the health."""
    app.store.fault = "no standby replicates from 10.1.2.3"
    app.queues.put(Queue.RETRIES_POISON, "text", NO_TIME)

    found = health(app, 503)
    up = samples(app)["pushgrid_storage_up", "queue"]
    app.resources.fail_next("list")
    away = health(app, 503)
    app.store.fault = ""

    cause = ": /readyz of the server, and its log, say why"
    assert (found["status"], found["storage"]) == ("unhealthy", "refusing")
    assert found["reasons"] == [f"nothing can be stored{cause}", POISON]
    assert (away["storage"], away["reasons"]) == (
        "unreachable",
        [f"storage does not answer{cause}"],
    )
    assert found["queues"].keys() == health(app)["queues"].keys()
    assert "10.1.2.3" not in json.dumps([found, away])
    assert (up, samples(app)["pushgrid_storage_up", "queue"]) == (0, 1)


def test_the_timers_last_runs_are_shown(app: Deployment) -> None:
    timer(app, "wake").record([])
    timer(app, "deadletter").record(["poison"])
    app.clock.advance(LATE + MINUTE)
    timer(app, "deadletter").record(["poison"])
    for name, damage in (("no-json", None), ("timer-other", {"timer": "other", "lastRun": 1})):
        app.resources.damage(Table.TOPICS, "state", name, damage)

    found = health(app)

    assert found["timers"] == {
        "deadletter": {"lastRun": "2026-02-09T12:16:00.0000000Z", "failed": ["poison"]},
        "wake": {"lastRun": "2026-02-09T12:00:00.0000000Z", "failed": []},
    }
    assert found["reasons"] == ["the timer wake is late", "the timer deadletter has failed"]


def test_a_schedule_that_is_unset_is_named_at_once(app: Deployment) -> None:
    app.status = replace(app.status, unset_schedules={"wake": "PUSHGRID_WAKE_SCHEDULE"})

    found = health(app)

    reason = "the timer wake does not run: PUSHGRID_WAKE_SCHEDULE is not set"
    assert (found["status"], found["reasons"]) == ("degraded", [reason])


def test_a_timer_that_has_never_run_is_late_15_minutes_after_the_first_start(
    app: Deployment,
) -> None:
    """One without a schedule is named for that alone."""
    app.status = replace(app.status, unset_schedules={"wake": "PUSHGRID_WAKE_SCHEDULE"})
    app.preparation.run()
    app.clock.advance(LATE)
    unset, *before = health(app)["reasons"]
    app.clock.advance(timedelta(seconds=1))
    after = health(app)["reasons"]
    timer(app, "deadletter").record([])

    assert before == []
    assert after == [unset, "the timer deadletter is late: it has never run"]
    assert health(app)["reasons"] == [unset]


def test_a_first_start_that_is_still_to_come_hides_no_timer_that_has_never_run(
    app: Deployment,
) -> None:
    app.clock.jump(6 * HOUR)
    app.preparation.run()
    app.start_at(-6 * HOUR)  # another process, whose clock is right
    timer(app, "deadletter").record([])

    assert health(app)["reasons"] == ["the timer wake is late: it has never run"]


def test_a_timer_whose_last_run_is_still_to_come_is_not_healthy(app: Deployment) -> None:
    wake = timer(app, "wake")
    app.clock.jump(6 * HOUR)
    wake.record([])
    app.start_at(-6 * HOUR)  # another process, whose clock is right

    assert health(app)["reasons"] == ["the timer wake has run 21600 s ahead of the clock"]

    app.clock.advance(MINUTE)
    wake.record([])
    assert health(app)["reasons"] == []


def test_a_hold_that_is_too_long_is_shown_as_it_is_kept(crm: ArmApi) -> None:
    crm.hold(minutes=5, begun=6 * 3600)

    (found,) = held_subscriptions(crm.resources, crm.clock.now())

    assert isinstance(found.availability, Held)
    assert found.availability.until == START + timedelta(minutes=5)


def test_a_run_is_stored_once_a_minute_and_a_change_at_once(app: Deployment) -> None:
    wake, etags = timer(app, "wake"), []
    for failed in ([], [], ["x"], [], []):
        wake.record(failed)
        app.clock.advance(timedelta(seconds=10))
        (row,) = app.resources.list(*RUNS)
        etags.append(row.etag)
    app.clock.advance(MINUTE)
    wake.record([])

    (row,) = app.resources.list(*RUNS)
    assert len({*etags, row.etag}) == 4


def test_a_run_that_can_not_be_noted_fails_nothing(app: Deployment, logged: Logged) -> None:
    app.resources.fail_next("put")

    timer(app, "wake").run()

    assert len(logged("timer.unrecorded")) == 1


def test_a_timers_failure_is_noted(app: Deployment) -> None:
    class Failing:
        def run(self, _: object) -> None:
            raise StorageUnavailable

    for name, job in (("deadletter", "housekeeping"), ("wake", "wake")):
        with pytest.raises(JobsFailed, match=job):
            timer(app, name, {job: Failing()}).run()

    found = last_runs(app.resources.list(Table.TOPICS, STATE))
    assert {name: run.failed for name, run in found.items()} == {
        "deadletter": ("housekeeping",),
        "wake": ("wake",),
    }


@pytest.mark.parametrize(
    ("what", "method", "status"), [("keys", "GET", 404), ("health", "POST", 405)]
)
def test_there_is_nothing_else(app: Deployment, what: str, method: str, status: int) -> None:
    assert get(app, what, method=method).status == status


def hour(subscription: str, counts: Any, start: datetime = START) -> CountRow:
    return CountRow(Span.HOUR, start, "orders", subscription, "a", counts)


def test_totals_are_shown_as_prometheus_reads_them(app: Deployment) -> None:
    counts = {
        Series(Metric.DELIVERY_SUCCESS): Sum(5, 2, 1, 4),
        Series(Metric.PROCESSING_DURATION): Sum(1500, 3, 1, 1000),
        Series(Metric.DROPPED, (("DropReason", 'a "b"\\\n'),)): Sum(2, 1, 2, 2),
    }
    published = {Series(Metric.PUBLISH_SUCCESS): Sum(123456789, 9, 1, 9)}
    app.counts.write([hour("crm", counts), hour("", published)])
    app.queues.put(Queue.WAITING, "text", HOUR)
    timer(app, "wake").record([])

    found = samples(app)

    assert found["pushgrid_delivery_success_total", "orders", "crm"] == 5
    assert found["pushgrid_destination_processing_duration_seconds_sum", "orders", "crm"] == 1.5
    assert found["pushgrid_destination_processing_duration_seconds_count", "orders", "crm"] == 3
    assert found["pushgrid_dropped_events_total", "orders", "crm", 'a "b"\\\n'] == 2
    assert found["pushgrid_publish_success_total", "orders"] == 123456789
    assert found["pushgrid_queue_messages", "waiting"] == 1
    assert found["pushgrid_queue_oldest_message_age_seconds", "waiting"] == 0
    assert found["pushgrid_timer_last_run_timestamp_seconds", "wake"] == START.timestamp()
    assert found["pushgrid_storage_up", "queue"] == 1
    text = get(app, "metrics").body.decode()
    assert text.count("# TYPE pushgrid_") == len(DEFINITIONS) + 9


def test_counters_never_go_back_when_hours_are_added_up(app: Deployment) -> None:
    seen = []
    for number in range(50):
        counts = {Series(Metric.DELIVERY_SUCCESS): Sum(1, 1, 1, 1)}
        app.counts.write([hour("crm", counts, START + number * HOUR)])
        app.housekeeping.run(app.in_a_minute())
        seen.append(samples(app)["pushgrid_delivery_success_total", "orders", "crm"])
        app.clock.advance(HOUR)

    assert seen == list(range(1, 51))
    assert len(app.counts.rows) <= 4


def test_queues_that_hold_something_are_logged_once_a_minute(
    app: Deployment, logged: Logged
) -> None:
    """The alert needs to see it end, too."""
    watch = app.watch_queues
    app.put(Queue.DELIVERIES, a_message())
    app.clock.advance(MINUTE)
    for _ in range(3):
        watch.run(app.in_a_minute())
    app.queues.stored.clear()
    for _ in range(2):
        app.clock.advance(MINUTE)
        watch.run(app.in_a_minute())

    lines = logged("queue.depth")

    assert [(line["queue"], line["messages"], line["oldest_seconds"]) for line in lines] == [
        ("deliveries", 1, 60.0),
        ("deliveries", 0, 0.0),
    ]


def test_a_clock_that_is_set_back_does_not_silence_the_queues(
    app: Deployment, logged: Logged
) -> None:
    watch = WatchQueues(
        watch=app.queues, queues=(*Queue,), clock=app.clock, monotonic=app.clock.monotonic
    )
    app.put(Queue.DELIVERIES, a_message())
    app.clock.jump(6 * HOUR)
    watch.run(app.in_a_minute())
    app.clock.jump(-6 * HOUR)
    app.clock.advance(MINUTE)

    watch.run(app.in_a_minute())

    assert len(logged("queue.depth")) == 2


@pytest.fixture
def crm(app: Deployment) -> ArmApi:
    """The management of the same deployment, with a subscription."""
    api = ArmApi(app.clock, app.store)
    for path, body in ((ORDERS, {"location": "x"}), (CRM, hook())):
        api.json("PUT", path, body, status=201)
    return api


FAILED = Series(Metric.ATTEMPT_FAIL, (("Error", "BadRequest"), ("ErrorType", "ClientError")))


def count(app: Deployment, name: str, values: dict[Series, float], ago: int = 0) -> None:
    """Store what a process has counted, so many minutes ago."""
    at = app.clock.now() - ago * MINUTE
    minute = a_minute(values, start=at, subscription=name)
    hour = at.replace(minute=0, second=0, microsecond=0)
    app.counts.write([minute, minute._replace(span=Span.HOUR, start=hour, instance=f"a{ago}")])


@pytest.mark.usefixtures("crm")
def test_an_endpoint_that_refuses_all_is_failing(app: Deployment) -> None:
    """It is never held for a 400: the event is at fault, as far as Event Grid knows."""
    app.clock.advance(30 * MINUTE)
    refused = an_outcome(Outcome.BAD_REQUEST, 400)
    answer = EndpointAnswer("s-1", {}, "no such customer")
    at = app.clock.now()
    record = a_record(at=at, published_at=at, outcome=replace(refused, answer=answer))
    app.attempts.write([record])
    count(app, "crm", {Series(Metric.MATCHED): 3, FAILED: 3, Series(Metric.EVENT_AGE): 40_000})

    found = json.loads(get(app, "topics").body)
    seen = samples(app)

    [trouble] = found["troubles"]
    assert (trouble["kind"], trouble["why"]) == (
        "failing",
        "400 BadRequest at 12:30:00Z: no such customer",
    )
    assert (trouble["since"], trouble["waiting"]) == (timestamp(at), 3)
    assert found["waiting"] == {
        "events": 3,
        "oldestSeenSeconds": 40.0,
        "awaitingBlob": 0,
        "blobsDueSeconds": None,
    }
    [topic] = found["value"]
    assert topic["subscriptions"][0]["waiting"] == 3
    assert seen["pushgrid_waiting_events", "orders", "crm"] == 3
    assert seen["pushgrid_oldest_seen_event_age_seconds", "orders", "crm"] == 40

    count(app, "crm", {Series(Metric.DELIVERY_SUCCESS): 4})
    assert troubles(app) == []


@pytest.mark.usefixtures("crm")
def test_events_that_are_given_up_are_counted_apart_until_their_blob_is_written(
    app: Deployment,
) -> None:
    app.clock.advance(30 * MINUTE)
    given_up = {Series(Metric.MATCHED): 4, FAILED: 4, Series(Metric.AWAITING_BLOB): 3}
    count(app, "crm", {**given_up, Series(Metric.EVENT_AGE): 40_000})

    found = json.loads(get(app, "topics").body)

    apart = {"oldestSeenSeconds": 40.0, "awaitingBlob": 3, "blobsDueSeconds": 300.0}
    [trouble] = found["troubles"]
    assert found["waiting"] == {"events": 1, **apart}
    assert trouble.items() >= {"waiting": 1, **apart}.items()
    assert found["value"][0]["subscriptions"][0].items() >= {"waiting": 1, **apart}.items()
    seen = samples(app)
    assert seen["pushgrid_waiting_events", "orders", "crm"] == 1
    assert seen["pushgrid_events_awaiting_blob", "orders", "crm"] == 3
    assert "AwaitingBlob" not in get(app, "metrics").body.decode()


@pytest.mark.usefixtures("crm")
def test_who_waits_for_a_far_attempt_is_failing_though_nothing_was_tried_for_an_hour(
    app: Deployment,
) -> None:
    at = app.clock.now()
    app.attempts.write([a_record(at=at, published_at=at, outcome=an_outcome())])
    count(app, "crm", {Series(Metric.MATCHED): 1, FAILED: 1})
    app.clock.advance(5 * HOUR)

    [trouble] = troubles(app)

    assert (trouble["kind"], trouble["since"]) == ("failing", timestamp(at))
    assert trouble["why"] == "503 Busy at 12:00:00Z"


def test_the_minutes_of_few_are_read_however_many_fail(
    app: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(MOST_READ + 20):
        count(app, f"s-{number}", {FAILED: number + 1})
    minutes, read = Mock(wraps=app.counts.minutes), Mock(wraps=app.attempts.read)
    monkeypatch.setattr(app.counts, "minutes", minutes)
    monkeypatch.setattr(app.attempts, "read", read)

    found = read_activities(app.store, app.clock.now(), 5 * MINUTE)

    assert (minutes.call_count, read.call_count) == (MOST_READ, MOST_FAILURES_READ)
    assert minutes.call_args_list[0].args[1] == f"s-{MOST_READ + 19}"
    assert len(found) == MOST_READ + 20


def test_endpoints_that_get_nothing_are_shown_with_the_reason(app: Deployment, crm: ArmApi) -> None:
    assert held_samples(app) == {}

    crm.json("POST", f"{CRM}/pause")

    assert held_samples(app) == {("orders", "crm", "Pause"): 1}


def held_samples(app: Deployment) -> dict[tuple[str, ...], float]:
    found = samples(app)
    return {key[1:]: value for key, value in found.items() if key[0] == "pushgrid_endpoint_held"}


def test_when_a_replay_ended_is_shown_by_its_state(app: Deployment) -> None:
    for name, state, hours, is_dry_run in (
        ("a", JobState.DONE, 1, False),
        ("b", JobState.DONE, 2, False),
        ("c", JobState.DONE, 3, True),
        ("d", JobState.RUNNING, 4, False),
        ("e", JobState.FAILED, 5, False),
    ):
        job = a_replay(id=name, is_dry_run=is_dry_run)
        ended = START + hours * HOUR
        app.replays.save(job if state is JobState.RUNNING else job.ended(state, ended), None)

    name = "pushgrid_replay_last_end_timestamp_seconds"
    found = {key[1]: value for key, value in samples(app).items() if key[0] == name}
    assert found == {
        "Done": (START + 2 * HOUR).timestamp(),
        "Failed": (START + 5 * HOUR).timestamp(),
    }
