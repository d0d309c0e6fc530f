"""The line of an attempt: whole for queries, short for a terminal."""

from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta

import pytest

from devhost.log import LineOutput, LogLines, running
from pushgrid.testing.memory import START
from shared.delivery.outcome import DeliveryOutcome, Outcome
from shared.delivery.policy import End, EndReason, RetryAt
from shared.delivery.requests.push_request import Loaded
from shared.engine.delivering.attempt_lines import AttemptLines
from shared.settings import LogFormat
from shared.telemetry import LOGGER
from shared.wiring.worker_log import use_format
from tests.builders import a_delivery, a_message, a_subscription, an_outcome, terms, text

WHY = "the end is not confirmed: the subscription may have changed; schedule step 11: every 12 h"
LONGEST = DeliveryOutcome(
    outcome=Outcome.RESOLUTION_ERROR, status=None, seconds=30, detail="no such host\n" * 50
)
RETRY = RetryAt(START + timedelta(hours=23, minutes=59), WHY)
SYSTEM_ID = re.compile(r" [0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}: ")


@pytest.fixture
def printed(caplog: pytest.LogCaptureFixture) -> Iterator[Callable[..., str]]:
    """Log an attempt; return what the local host prints of it."""
    logger, out = logging.getLogger(LOGGER), io.StringIO()
    handler = LogLines(LineOutput(out, io.StringIO()))
    caplog.set_level(logging.INFO, LOGGER)
    logger.addHandler(handler)
    token = running.set("deliver_function")

    def log(
        outcome: DeliveryOutcome = LONGEST,
        decision: RetryAt | End = RETRY,
        topic: str = "t" * 50,
        name: str = "s" * 64,
        event_id: str = "e" * 500,
        events: int = 1,
    ) -> str:
        out.seek(out.truncate(0))
        delivery = replace(a_delivery(), attempts=30)
        lines = AttemptLines(
            a_message(topic=topic, subscription=name),
            a_subscription(topic=topic, name=name),
            terms(),
        )
        tried = tuple(Loaded(delivery, text(id=event_id)) for _ in range(events))
        lines.attempted(tried, outcome, decision, START)
        return out.getvalue()

    yield log
    running.reset(token)
    logger.removeHandler(handler)
    use_format(LogFormat.JSON)


@pytest.mark.parametrize("events", [1, 5000])
@pytest.mark.parametrize(
    "decision", [RETRY, End(EndReason.PROBATION, WHY)], ids=lambda each: type(each).__name__
)
@pytest.mark.parametrize("event_id", ["e" * 37, "e" * 500, "\x1b[31m", "\n", "", "e" * 36])
def test_it_fits_a_terminal_however_long_names_and_reasons_are(
    printed: Callable[..., str], decision: RetryAt | End, event_id: str, events: int
) -> None:
    use_format(LogFormat.TEXT)

    line = printed(decision=decision, event_id=event_id, events=events)

    assert len(line) <= 201
    assert line.removesuffix("\n").isprintable()
    if events > 1:
        assert " 5000 events: attempt 30, - ResolutionError; " in line
    elif event_id == "e" * 36:
        assert f" {event_id}: attempt 30, " in line
    else:
        assert SYSTEM_ID.search(line)


def test_a_usual_one_says_everything(printed: Callable[..., str]) -> None:
    use_format(LogFormat.TEXT)
    usual = {"topic": "orders", "name": "crm", "event_id": "e-0"}
    retry = RetryAt(START + timedelta(seconds=30.2), "minimum for 503: 30 s")
    end = End(EndReason.BAD_REQUEST, "400 is never retried")
    refused = replace(an_outcome(Outcome.SOCKET_ERROR, None), detail="connection refused")

    texts = [
        printed(an_outcome(), retry, **usual),
        printed(refused, retry, **usual),
        printed(an_outcome(Outcome.BAD_REQUEST, 400), end, **usual),
    ]

    assert [line.split("deliver_function  ")[1].strip() for line in texts] == [
        f"delivery.attempted orders/crm e-0: attempt 30, {rest}"
        for rest in (
            "503 Busy; next in 0:00:30 (minimum for 503: 30 s)",
            "- SocketError; next in 0:00:30 (minimum for 503: 30 s; connection refused)",
            "400 BadRequest; given up (400 is never retried)",
        )
    ]


def test_queries_get_the_whole_record(printed: Callable[..., str]) -> None:
    """The default: Azure's tables are asked for its members."""
    line = printed()

    record = json.loads(line[line.index("{") :])
    assert (record["event"], record["event_id"]) == ("delivery.attempted", "e" * 500)
    assert (record["why"], record["category"]) == (WHY, "DeliveryFailures")
