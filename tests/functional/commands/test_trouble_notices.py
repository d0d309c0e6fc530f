"""The deployment as a source: who subscribes to it is told what went wrong, once a minute."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from pushgrid.testing.deployment import Pushgrid
from pushgrid.testing.driven_app import GROUP
from pushgrid.testing.topic import StorageAccount, Subscriber
from shared.clock import timestamp
from shared.engine.caching.resource_cache import ResourceCache
from shared.engine.operations.trouble_notices import LOOKED_BACK, TroubleNotices
from shared.engine.ports import Queue, Table
from shared.engine.replaying.job import JobState, Progress
from shared.engine.timers.source_events import is_news
from shared.errors import StorageUnavailable
from shared.events.notices import NoticeKind
from shared.metrics import Metric, Series, Span
from shared.subscriptions.subscription import SubscriptionKey
from tests.builders import NEVER, a_minute, a_replay

SOURCE = f"{GROUP}/providers/Pushgrid/deployments/this-deployment"
HOUR = timedelta(hours=1)


@pytest.fixture
def ops(pushgrid: Pushgrid) -> Subscriber:
    """Who is told of troubles, from a minute on."""
    source = StorageAccount(pushgrid._app, "this-deployment", SOURCE)
    subscriber = source.subscribe("ops")
    pushgrid._app.trouble_notices.run(NEVER)
    pushgrid.advance(minutes=1)
    return subscriber


def count(
    pushgrid: Pushgrid, metric: Metric, by: int, topic: str = "orders", name: str = "crm", **d: str
) -> None:
    """Count as a process does, in the minute that it is."""
    series, now = Series(metric, tuple(d.items())), pushgrid.now
    instance, start = f"{metric}{d}{now}", now.replace(second=0)
    minute = a_minute({series: by}, start=start, topic=topic, subscription=name, instance=instance)
    hour = minute._replace(span=Span.HOUR, start=start.replace(minute=0))
    pushgrid._app.counts.write([minute, hour])


def tell(pushgrid: Pushgrid, minutes: float = 2) -> None:
    pushgrid.advance(minutes=minutes)
    pushgrid._app.trouble_notices.run(NEVER)
    pushgrid.advance()


def test_each_kind_is_reported_once_a_subscription_and_minute(
    pushgrid: Pushgrid, ops: Subscriber
) -> None:
    topic = pushgrid.topic("orders")
    topic.subscribe("crm", answers=[(503, {}, b"we are closed\nsince noon")])
    topic.subscribe("Billing")
    topic.publish({"eventType": "A.B", "subject": "s"})
    minute = pushgrid.now.replace(second=0)
    for _ in range(2):
        count(pushgrid, Metric.HOLDS_BEGAN, 1, Reason="Probation")
        count(pushgrid, Metric.HOLDS_ENDED, 1, Reason="Probation")
        count(pushgrid, Metric.DEAD_LETTERED, 3, DeadLetterReason="TimeToLiveExceeded")
        count(pushgrid, Metric.DEAD_LETTERED, 2, DeadLetterReason="MaxDeliveryAttemptsExceeded")
        count(pushgrid, Metric.DROPPED, 4, DropReason="TimeToLiveExceeded")
        count(pushgrid, Metric.ANSWERED_LATE, 5)
        count(pushgrid, Metric.DELIVERY_SUCCESS, 6)
        pushgrid.advance(seconds=1)
    count(pushgrid, Metric.DROPPED, 1, name="billing", DropReason="DeadLetterContainerNotFound")
    count(pushgrid, Metric.DROPPED, 1, name="gone", DropReason="SubscriptionDeleted")

    tell(pushgrid)
    tell(pushgrid)

    told = {(each["eventType"], each["data"]["subscription"]): each for each in ops.received}
    assert len(told) == len(ops.received) == 7
    kinds = {kind for kind, _ in told}
    assert kinds == {kind.value for kind in NoticeKind} - {"Pushgrid.ReplayEnded"}
    dead = told["Pushgrid.EventsDeadLettered", "crm"]
    assert dead["topic"] == SOURCE
    assert dead["subject"] == "/topics/orders/eventSubscriptions/crm"
    assert datetime.fromisoformat(dead["eventTime"]) == minute
    cause = dead["data"].pop("cause")  # of the latest attempt
    assert re.fullmatch(r"503 Busy at 12:\d\d:\d\dZ: we are closed", cause)
    assert dead["data"] == {
        "topic": "orders",
        "subscription": "crm",
        "minute": dead["eventTime"],
        "count": 10,
        "reasons": {"TimeToLiveExceeded": 6, "MaxDeliveryAttemptsExceeded": 4},
        "remedy": "pushgrid dead-letters list --topic orders --subscription crm",
    }
    assert told["Pushgrid.EndpointAnsweredLate", "crm"]["data"]["count"] == 10
    assert told["Pushgrid.HoldBegan", "crm"]["data"]["reasons"] == {"Probation": 2}
    assert "we are closed" in told["Pushgrid.HoldBegan", "crm"]["data"]["cause"]
    dropped = told["Pushgrid.EventsDropped", "Billing"]["data"]
    assert (dropped["count"], dropped["cause"]) == (1, "")
    assert dropped["remedy"].startswith("create the container '")
    gone = told["Pushgrid.EventsDropped", "gone"]["data"]
    assert gone["remedy"] == "nothing: the event subscription was deleted"


def test_each_minute_is_reported_and_a_repeated_run_sends_the_same_events(
    pushgrid: Pushgrid, ops: Subscriber
) -> None:
    for _ in range(2):
        count(pushgrid, Metric.DROPPED, 1, DropReason="X")
        pushgrid.advance(minutes=1)
    row = pushgrid._app.resources.get(Table.TOPICS, "state", "troubles")
    assert row is not None

    tell(pushgrid)
    first = [each["id"] for each in ops.received]
    pushgrid._app.resources.damage(Table.TOPICS, "state", "troubles", row.document)
    anew(pushgrid).run(NEVER)
    pushgrid.advance()

    assert len(first) == len(set(first)) == 2
    assert [each["id"] for each in ops.received] == first * 2


def anew(pushgrid: Pushgrid) -> TroubleNotices:
    """Return the job of a process that knows nothing."""
    return replace(pushgrid._app.trouble_notices, _until=None)


def test_a_receiver_of_reports_is_never_reported(pushgrid: Pushgrid, ops: Subscriber) -> None:
    for topic in ("system-this-deployment", "System-This-Deployment".lower()):
        count(pushgrid, Metric.DEAD_LETTERED, 1, topic=topic, name="ops", DeadLetterReason="X")
        count(pushgrid, Metric.HOLDS_BEGAN, 1, topic=topic, name="ops", Reason="Pause")

    tell(pushgrid)

    assert ops.received == []
    assert not is_news("system-this-deployment", ['{"id":"1","subject":"s"}'])
    assert is_news("orders", ['{"id":"1","subject":"s"}'])


def test_while_nobody_subscribes_nothing_is_read_but_who_does(
    pushgrid: Pushgrid, monkeypatch: pytest.MonkeyPatch
) -> None:
    count(pushgrid, Metric.DROPPED, 1, DropReason="X")
    pushgrid.advance(minutes=3)
    for port, method in (
        (pushgrid._app.counts, "hours"),
        (pushgrid._app.counts, "minutes"),
        (pushgrid._app.attempts, "read"),
        (pushgrid._app.resources, "get"),
    ):
        port.fail_next(method)
    asked: list[str] = []
    read = ResourceCache.of_topic

    def of_topic(cache: ResourceCache, topic: str) -> Any:
        asked.append(topic)
        return read(cache, topic)

    monkeypatch.setattr(ResourceCache, "of_topic", of_topic)
    pushgrid._app.trouble_notices.run(NEVER)

    assert asked == ["system-this-deployment"]
    assert pushgrid._app.queues.texts(Queue.DELIVERIES) == []


def test_after_a_time_without_runs_only_the_last_quarter_of_an_hour_is_reported(
    pushgrid: Pushgrid, ops: Subscriber
) -> None:
    count(pushgrid, Metric.DROPPED, 7, DropReason="X")
    pushgrid.advance(LOOKED_BACK)
    count(pushgrid, Metric.DROPPED, 1, DropReason="X")

    tell(pushgrid)

    assert [each["data"]["count"] for each in ops.received] == [1]


def test_a_process_whose_clock_was_ahead_silences_no_other(
    pushgrid: Pushgrid, ops: Subscriber
) -> None:
    """It had reported all minutes of the next six hours."""
    row = Table.TOPICS, "state", "troubles"
    stored = pushgrid._app.resources.get(*row)
    assert stored
    until = timestamp(pushgrid.now + 6 * HOUR)
    pushgrid._app.resources.put(*row, {"until": until}, stored.etag)

    tell(pushgrid)
    count(pushgrid, Metric.DROPPED, 1, DropReason="X")
    tell(pushgrid)

    assert [each["data"]["count"] for each in ops.received] == [1]


def test_a_clock_that_is_not_settled_reports_nothing(pushgrid: Pushgrid, ops: Subscriber) -> None:
    """Its minutes are not those in which others have counted."""
    count(pushgrid, Metric.DROPPED, 1, DropReason="X")
    pushgrid._app.clock.jump(6 * HOUR)
    pushgrid._app.watched.now()
    pushgrid._app.trouble_notices.run(NEVER)
    pushgrid._app.clock.jump(-6 * HOUR)
    pushgrid._app.watched.now()

    pushgrid.advance(minutes=10)
    pushgrid._app.wake.run(NEVER)  # the timer's other jobs: storage answers
    tell(pushgrid, 1)

    assert [each["data"]["count"] for each in ops.received] == [1]


def test_what_storage_refuses_is_reported_by_the_next_run(
    pushgrid: Pushgrid, ops: Subscriber
) -> None:
    count(pushgrid, Metric.DROPPED, 1, DropReason="X")
    pushgrid.advance(minutes=2)
    pushgrid._app.counts.fail_next("hours")

    with pytest.raises(StorageUnavailable):
        pushgrid._app.trouble_notices.run(NEVER)
    assert ops.received == []
    pushgrid._app.trouble_notices.run(NEVER)
    pushgrid.advance()

    assert len(ops.received) == 1


def test_a_replay_that_ended_is_reported_with_its_number_of_events(
    pushgrid: Pushgrid, ops: Subscriber
) -> None:
    ended = a_replay(state=JobState.DONE, ended_at=pushgrid.now, progress=Progress(put=12))
    to_ops = SubscriptionKey("system-this-deployment", "ops")
    for each in (
        replace(ended, id="r1"),
        replace(ended, id="r2", state=JobState.FAILED, why="the account is away"),
        a_replay(id="r3"),
        replace(ended, id="r4", is_dry_run=True),
        replace(ended, id="r5", to=to_ops),
    ):
        pushgrid._app.replays.save(each, None)

    tell(pushgrid)

    (event,) = ops.received
    data = event["data"]
    assert (event["eventType"], data["count"]) == ("Pushgrid.ReplayEnded", 24)
    assert data["reasons"] == {"Done": 1, "Failed": 1}
    assert sorted(data["replays"]) == ["r1", "r2"]
    assert (data["cause"], data["remedy"]) == ("the account is away", "pushgrid dead-letters jobs")


@pytest.mark.parametrize(
    ("pause", "cause", "remedy"),
    [
        (True, "paused by the admin key", "pushgrid subscription resume crm --topic orders"),
        (False, "", "pushgrid subscription test crm --topic orders"),
    ],
)
def test_a_hold_is_reported_with_what_ends_it(
    pushgrid: Pushgrid, ops: Subscriber, *, pause: bool, cause: str, remedy: str
) -> None:
    pushgrid.topic("orders").subscribe("crm")
    if pause:
        pushgrid.arm("POST", "topics/orders/eventSubscriptions/crm/pause")
    count(pushgrid, Metric.HOLDS_BEGAN, 1, Reason="Pause" if pause else "Probation")

    tell(pushgrid)

    (event,) = ops.received
    assert (event["data"]["cause"], event["data"]["remedy"]) == (cause, remedy)
