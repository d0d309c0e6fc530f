"""What a push tells to those whose events are in its request."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

from pushgrid.testing.memory import FakeClock, ScriptedPusher, answered
from shared.delivery.requests.push_batch import Loaded, PushBatch
from shared.engine.delivering.answers import Attempted
from shared.engine.delivering.push import Push
from shared.engine.delivering.visit import Request, Visit
from shared.http import Failure, NotAnswered
from tests.builders import a_delivery, a_message, a_subscription, terms


class Told:
    """Late answers of one part, and what they were told."""

    def __init__(self) -> None:
        self.batches: list[PushBatch] = []

    def succeeded(self, batch: PushBatch, *_: object) -> None:
        self.batches.append(batch)


class Share(NamedTuple):
    """What a push reads of a visit."""

    part: Any
    late: Told
    jitter: float = 0.0


class OnePart(NamedTuple):
    """What a push reads of a part."""

    subscription: Any
    terms: Any
    message: Any


def test_a_late_success_is_told_to_each_whose_events_were_in_the_request() -> None:
    """The request was filled from two messages: each has stored a retry of its own."""
    clock = FakeClock()
    pusher = ScriptedPusher(clock)
    subscription = a_subscription()
    pusher.script(subscription.endpoint_url, NotAnswered(Failure.TIMED_OUT, "", 30))
    part = OnePart(subscription, terms(), a_message())
    loaded = [Loaded(each, each.text or "") for each in (a_delivery(0), a_delivery(1))]
    shares = [Share(part, Told()), Share(part, Told())]
    parts = [(cast("Visit", share), (each,)) for share, each in zip(shares, loaded, strict=True)]

    result = Push(pusher=pusher, clock=clock)(Request(tuple(loaded), parts, is_probe=False))
    late = pusher.sent[0].late
    assert late
    late.report(answered(200, seconds=40))

    assert isinstance(result, Attempted)
    assert [share.late.batches for share in shares] == [[(each,)] for each in loaded]
