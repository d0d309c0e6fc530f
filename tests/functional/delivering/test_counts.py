"""What is counted: each kind of end of an event, once; and the lines of attempts and failures."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from pushgrid.testing.memory import START, answered
from shared.delivery.delivery import Delivery
from shared.delivery.outcome import DeliveryOutcome, Outcome
from shared.delivery.policy import End, EndReason, RetryAt
from shared.engine.delivering.attempt_recorder import log_failed
from shared.engine.delivering.in_hand import Part
from shared.http import Failure, NotAnswered
from shared.metrics import Metric
from shared.subscriptions.advanced_filter import AdvancedFilter, FilterOperator
from shared.subscriptions.filters import EventFilter
from shared.subscriptions.subscription import Batching, Pause, SubscriptionKey
from shared.telemetry import LOGGER, TEXT_WIDTH
from tests.builders import (
    CRM,
    DEAD,
    PARKED,
    URL,
    a_delivery,
    a_message,
    a_subscription,
    an_outcome,
    terms,
    text,
)
from tests.functional.deployment import Deployment, Logged
from tests.functional.publish_requests import event, publish, publish_request

WRONG_KEY = "bm90IHRoZSBrZXk="
BUSY = ("Busy", "ServerError", "orders", "crm")


def counted(app: Deployment) -> Mapping[tuple[str, ...], float]:
    """Return what was counted of events: no durations and ages, and no holds."""
    timed = {Metric.PUBLISH_LATENCY, Metric.PROCESSING_DURATION, Metric.EVENT_AGE}
    others = timed | {Metric.HOLDS_BEGAN, Metric.HOLDS_ENDED}
    return {key: by for key, by in app.metrics.totals.items() if key[0] not in others}


def test_accepted_events_are_counted_where_they_go(app: Deployment) -> None:
    three = AdvancedFilter(operator=FilterOperator.NUMBER_IN, key=("data", "n"), values=(2,))
    app.subscribe(filter=EventFilter(subject_ends_with="1"))
    app.subscribe(name="erp", filter=EventFilter(subject_ends_with="2", advanced=(three, three)))

    assert publish(app, *map(event, (1, 2, 3, 11))).status == 200

    assert counted(app) == {
        (Metric.PUBLISH_SUCCESS, "orders", ""): 4,
        (Metric.UNMATCHED, "orders", ""): 1,
        (Metric.MATCHED, "orders", "crm"): 2,
        (Metric.MATCHED, "orders", "erp"): 1,
        (Metric.ADVANCED_FILTERS, "orders", "erp"): 8,
    }


def test_a_refused_request_is_counted_by_its_error(app: Deployment) -> None:
    app.queues.fail_next("put")
    app.subscribe()

    refused, failed = publish(app, event(), aeg_sas_key=WRONG_KEY), publish(app, event())

    assert (refused.status, failed.status) == (401, 503)
    assert app.metrics.of(Metric.PUBLISH_FAIL) == {
        ("Unauthorized", "ClientError", "orders", ""): 1,
        ("ServiceUnavailable", "ServerError", "orders", ""): 1,
    }
    assert set(counted(app)) == {key for key in counted(app) if key[0] is Metric.PUBLISH_FAIL}


def test_names_of_topics_that_do_not_exist_are_not_counted(app: Deployment) -> None:
    """Else anybody could fill the memory."""
    assert publish(app, event(), topic="nobody").status == 401

    assert counted(app) == {}


def test_a_batch_counts_its_events_and_one_request(app: Deployment) -> None:
    app.subscribe(batching=Batching(max_events=10))
    app.pusher.script(URL, answered(503, seconds=0.25), answered(200, seconds=0.25))

    for _ in range(2):
        app.run(a_message([a_delivery(0), a_delivery(1)], batch_size=10))
        app.clock.advance(timedelta(minutes=5))

    assert app.metrics.of(Metric.PROCESSING_DURATION) == {CRM: 500}
    assert counted(app) == {(Metric.ATTEMPT_FAIL, *BUSY): 2, (Metric.DELIVERY_SUCCESS, *CRM): 2}


def test_the_age_of_the_oldest_event_is_counted_whatever_comes_of_a_request(
    app: Deployment,
) -> None:
    """Delivered, failed, or requeued without an attempt: a process saw it."""
    app.clock.advance(timedelta(seconds=60))
    app.subscribe(batching=Batching(max_events=10))
    app.pusher.script(URL, answered(200), answered(503))
    origin = a_delivery().origin._replace(publish_id="late", published_at=app.clock.now())
    young = a_delivery(1, origin=origin)
    for number in range(2):
        app.run(a_message([a_delivery(number), young], batch_size=10))
    assert app.metrics.of(Metric.EVENT_AGE) == {CRM: 2 * 60_000}

    app.subscribe(pause=Pause(app.clock.now(), "ada"))
    app.run(a_message())

    assert app.metrics.of(Metric.EVENT_AGE) == {CRM: 3 * 60_000}


@pytest.mark.parametrize(
    ("exchange", "error", "kind"),
    [
        (answered(404), Outcome.NOT_FOUND, "ClientError"),
        (answered(302), Outcome.GENERIC_ERROR, "UnexpectedStatus"),
        (NotAnswered(Failure.SOCKET, "refused", 0.1), Outcome.SOCKET_ERROR, "NoAnswer"),
    ],
)
def test_a_failed_attempt_is_counted_by_its_outcome(
    app: Deployment, exchange: Any, error: str, kind: str
) -> None:
    app.subscribe()
    app.pusher.script(URL, exchange)

    app.run(a_message())

    assert counted(app) == {(Metric.ATTEMPT_FAIL, error, kind, *CRM): 1}


@pytest.mark.parametrize(
    ("delivery", "reason"),
    [
        pytest.param(a_delivery(), EndReason.BAD_REQUEST, id="no destination"),
        pytest.param(a_delivery(origin=PARKED, text=None), EndReason.PAYLOAD_MISSING, id="gone"),
    ],
)
def test_a_dropped_event_is_counted_by_its_reason(
    app: Deployment, delivery: Delivery, reason: EndReason
) -> None:
    app.subscribe()
    app.pusher.script(URL, answered(400))

    app.run(a_message([delivery, replace(delivery, position=1)]))

    assert app.metrics.of(Metric.DROPPED) == {(reason, *CRM): 2}
    assert app.metrics.of(Metric.DEAD_LETTERED) == app.metrics.of(Metric.AWAITING_BLOB) == {}


def test_a_dead_lettered_event_is_counted_once_and_not_as_dropped(app: Deployment) -> None:
    """When its blob is written, by its reason: two reasons here, in one blob."""
    app.subscribe(dead_letter=DEAD)
    app.pusher.script(URL, answered(400))
    app.run(a_message([a_delivery(0), a_delivery(1)]))
    app.pusher.script(URL, answered(403))
    app.run(a_message([a_delivery(2)]))
    assert app.metrics.of(Metric.DEAD_LETTERED) == {}
    assert app.metrics.of(Metric.AWAITING_BLOB) == {CRM: 3}

    app.clock.advance(timedelta(minutes=6))
    for _ in range(2):
        app.write_dead_letters.run(app.in_a_minute())

    assert len(app.dead_letters.blobs) == 1
    assert app.metrics.of(Metric.DEAD_LETTERED) == {
        (EndReason.BAD_REQUEST, *CRM): 2,
        (EndReason.FORBIDDEN, *CRM): 1,
    }
    assert app.metrics.of(Metric.AWAITING_BLOB) == {CRM: 0}
    assert app.metrics.of(Metric.DROPPED) == {}


def test_what_meets_a_hold_is_not_counted(app: Deployment) -> None:
    app.subscribe()
    app.pusher.script(URL, answered(404))
    app.run(a_message())
    before = dict(counted(app))

    app.run(a_message([a_delivery(1)]))

    assert counted(app) == before


def test_a_failed_attempt_has_event_grids_record_in_its_line(
    app: Deployment, logged: Logged
) -> None:
    subscription = app.subscribe()
    app.pusher.script(URL, answered(404, seconds=0.212))

    app.run(a_message())

    (line,) = logged("delivery.attempted")
    system_id = a_delivery().system_id(CRM)
    assert line["resourceId"] == subscription.topic_id.upper()
    assert (line["eventSubscriptionName"], line["category"]) == ("CRM", "DeliveryFailures")
    assert (line["operationName"], line["time"]) == ("Deliver", "2026-02-09T12:00:00.0000000Z")
    assert (line["attempt"], line["outcome"], line["status"]) == (1, "NotFound", 404)
    assert (line["decision"], line["why"]) == ("retry", "minimum for 404: 5 min")
    assert (line["profile"], line["next_attempt_at"]) == ("latest", "2026-02-09T12:05:00.0000000Z")
    assert URL not in str(logged("delivery.attempted") + logged("delivery.run"))
    assert line["message"] == (
        "Message:outcome=NotFound, latencyInMs=212, id=e-0, "
        f"systemId={system_id}, state=FilteredFailingDelivery, deliveryTime=2/9/2026 12:00:00 PM, "
        "deliveryCount=0, probationCount=0, deliverySchema=EventGridEvent, "
        "eventSubscriptionDeliverySchema=EventGridEvent, fields=InputEvent, EventSubscriptionId, "
        "DeliveryTime, State, Id, DeliverySchema, LastDeliveryAttemptTime, SystemId, "
        "publishTime=2/9/2026 12:00:00 PM, url=https://crm.example/hook, "
        "deliveryResponse=NotFound: 404 Not Found"
    )


def test_a_refused_publish_has_event_grids_record_and_no_secret(
    app: Deployment, logged: Logged
) -> None:
    request = publish_request(event(), aeg_sas_key=WRONG_KEY)
    app.answer(replace(request, url=f"{request.url}&aeg-sas-token=s3cret"))

    (line,) = logged("publish.refused")
    topic = app.directory.topics["orders"].arm_id.upper()
    assert (line["resourceId"], line["category"]) == (topic, "PublishFailures")
    assert line["message"] == (
        "inputEventsCount=null, requestUri=HTTPS://PUSHGRID.EXAMPLE/TOPICS/ORDERS/API/EVENTS, "
        f"publisherInfo=PublisherInfo(category=User, inputSchema=EventGridEvent, "
        f"armResourceId={topic}), httpStatusCode=Unauthorized, errorType=ClientError, "
        "errorMessage=Unauthorized"
    )
    assert "cret" not in str(line)
    assert "bm90" not in str(line)


WHY = "the end is not confirmed: the subscription may have changed; schedule step 11: every 12 h"
LONGEST = DeliveryOutcome(
    outcome=Outcome.RESOLUTION_ERROR, status=None, seconds=30, detail="no such host\n" * 50
)
RETRY = RetryAt(START + timedelta(hours=23, minutes=59), WHY)
LONGEST_KEY = SubscriptionKey("t" * 50, "s" * 64)


def text_of(
    caplog: pytest.LogCaptureFixture,
    outcome: DeliveryOutcome = LONGEST,
    decision: RetryAt | End = RETRY,
    key: SubscriptionKey = LONGEST_KEY,
    event_id: str = "e" * 500,
    events: int = 1,
) -> str:
    """Log an attempt; return what a terminal shows of it."""
    caplog.set_level(logging.INFO, LOGGER)
    part = Part(
        source=a_message((), topic=key.topic, subscription=key.subscription),
        subscription=a_subscription(topic=key.topic, name=key.subscription),
        terms=terms(),
        to_push=(),
        ended=(),
        lost=(),
    )
    tried = a_delivery(attempts=30, text=text(id=event_id))
    log_failed(part, (tried,) * events, outcome, decision, START)
    return str(vars(caplog.records[-1])["text"])


@pytest.mark.parametrize("decision", [RETRY, End(EndReason.PROBATION, WHY)], ids=["retry", "end"])
@pytest.mark.parametrize(
    ("event_id", "events", "named"),
    [
        ("e" * 36, 1, "e" * 36),
        ("e" * 37, 1, None),
        ("\x1b[31m", 1, None),
        ("", 1, None),
        ("e" * 500, 5000, "5000 events"),
    ],
)
def test_it_fits_a_terminal_however_long_names_and_reasons_are(
    caplog: pytest.LogCaptureFixture,
    decision: RetryAt | End,
    event_id: str,
    events: int,
    named: str | None,
) -> None:
    """An id that is too long or not printable gives way to the system id."""
    line = text_of(caplog, decision=decision, event_id=event_id, events=events)

    assert len(line) <= TEXT_WIDTH
    assert line.isprintable()
    assert f" {named or a_delivery().system_id(LONGEST_KEY)}: attempt 30, - Resolution" in line


SOON = RetryAt(START + timedelta(seconds=30.2), "minimum for 503: 30 s")
GIVEN_UP = End(EndReason.BAD_REQUEST, "400 is never retried")
REFUSED = replace(an_outcome(Outcome.SOCKET_ERROR, None), detail="connection refused")


@pytest.mark.parametrize(
    ("outcome", "decision", "words"),
    [
        (an_outcome(), SOON, "503 Busy; next in 0:00:30 (minimum for 503: 30 s)"),
        (
            REFUSED,
            SOON,
            "- SocketError; next in 0:00:30 (minimum for 503: 30 s; connection refused)",
        ),
        (
            an_outcome(Outcome.BAD_REQUEST, 400),
            GIVEN_UP,
            "400 BadRequest; given up (400 is never retried)",
        ),
    ],
    ids=["retry", "no answer", "end"],
)
def test_a_usual_one_says_everything(
    caplog: pytest.LogCaptureFixture, outcome: DeliveryOutcome, decision: RetryAt | End, words: str
) -> None:
    found = text_of(caplog, outcome, decision, CRM, "e-0")

    assert found == f"delivery.attempted orders/crm e-0: attempt 30, {words}"
