"""The lines that the app logs are told as what they mean."""

from __future__ import annotations

import io
import logging
from collections.abc import Callable, Iterator

import pytest

from cli.local.narration import NarratedLine, narrate
from devhost.log import LineOutput, LogLines
from pushgrid.testing.memory import answered
from shared.engine.ports import Queue
from shared.engine.replaying.job import JobState, Progress
from shared.engine.replaying.jobs import log_job
from shared.settings import AttemptLogging
from shared.subscriptions.destination import base_url
from shared.subscriptions.diagnosis import of_status
from shared.telemetry import LOGGER
from tests.builders import a_delivery, a_message, a_note, a_replay
from tests.functional.delivering.product import a_product
from tests.functional.deployment import Deployment
from tests.functional.manage.arm_api import CRM, URL, header, hook


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> Iterator[Callable[[], list[NarratedLine]]]:
    """Give what the local host's log tells."""
    logger, out = logging.getLogger(LOGGER), io.StringIO()
    handler = LogLines(LineOutput(out, io.StringIO()))
    caplog.set_level(logging.INFO, LOGGER)
    logger.addHandler(handler)
    yield lambda: [each for line in out.getvalue().splitlines() if (each := narrate(line))]
    logger.removeHandler(handler)


def test_a_subscription_from_its_handshake_to_its_end(
    app: Deployment, told: Callable[[], list[NarratedLine]]
) -> None:
    app.keep_attempts(AttemptLogging.ALL)
    product = a_product(app)
    moved = answered(307, b"", {"location": "https://new.example/hook?sig=1"})
    product.api.pusher.script(URL, moved, answered(200), answered(400))

    product.publish(1)
    product.deliver()
    product.deliver()
    product.publish(2)
    product.deliver()
    secret = f"whsec_{'k' * 32}"
    for attributes in ([header(secret, "webhook-signature")], []):
        product.api.call("PUT", CRM, hook(URL, *attributes))
    product.api.call("POST", f"{CRM}/pause")
    product.api.pusher.script(URL, answered(404))
    product.api.call("PUT", f"{CRM}2", hook())

    refused = of_status("POST", URL, 404, "NotFound")
    assert [(each.kind, each.about, each.text.partition(";")[0]) for each in told()] == [
        ("handshake", "orders/crm", f"asking {base_url(URL)} for consent (up to 100 s)"),
        ("handshake", "orders/crm", "accepted"),
        ("published", "orders", "1 event: stored 1 delivery in 1 message, then answered 200"),
        ("retry", "orders/crm", "attempt 1: 307 GenericError: Location: https://new.example/hook"),
        ("delivered", "orders/crm", "attempt 2: 200 in 100 ms"),
        ("published", "orders", "1 event: stored 1 delivery in 1 message, then answered 200"),
        ("given up", "orders/crm", "attempt 1: 400 BadRequest"),
        ("dropped", "orders/crm", "1 event: UndeliverableDueToHttpBadRequest"),
        (
            "unsigned",
            "orders/crm",
            "was signed until an update by the admin key",
        ),
        (
            "held",
            "orders/crm",
            "paused by the admin key: its events wait until it is resumed",
        ),
        ("handshake", "orders/crm2", f"asking {base_url(URL)} for consent (up to 100 s)"),
        ("handshake", "orders/crm2", f"failed: {refused.why} {refused.remedy}"),
    ]


def test_a_hold_and_a_dead_letter(app: Deployment, told: Callable[[], list[NarratedLine]]) -> None:
    app.subscribe()
    app.pusher.script(URL, answered(503))
    app.run(a_message())
    app.run(a_message([a_delivery(1), a_delivery(2)]))
    app.put(Queue.DEADLETTERS, a_message(dead_letter=a_note()))
    app.write_dead_letters.run(app.in_a_minute())

    retry, began, held, dead = told()

    kinds = [each.kind for each in (retry, began, held, dead)]
    assert kinds == ["retry", "held", "held", "dead-lettered"]
    assert began.text.startswith("endpoint gets nothing before ")
    assert began.text.endswith(": 503 Busy at 12:00:00Z (probation for Busy: 10 s)")
    assert held.text.startswith("2 events until ")
    assert dead.text.startswith("1 event in dead/CRM/")


def test_a_replay_and_its_end(told: Callable[[], list[NarratedLine]]) -> None:
    log_job("replay.started", a_replay())
    log_job("replay.ended", a_replay(state=JobState.DONE, progress=Progress(events=3, put=2)))

    assert [(each.kind, each.text) for each in told()] == [
        ("replay", "replay started by the admin key: j-1"),
        ("replay", "Done: 2 events queued, 0 skipped: j-1"),
    ]
