"""Pushes one request to an endpoint."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial

from shared.clock import Clock
from shared.delivery.outcome import Outcome, classify, endpoint_answer
from shared.delivery.requests.push_request import push_request
from shared.engine.delivering.in_hand import Attempted, PushRequest, Shortage
from shared.engine.ports import Pusher
from shared.errors import is_shortage
from shared.http import Answered, Failure, LateAnswerHandler, NotAnswered


@dataclass(frozen=True, slots=True, kw_only=True)
class Push:
    """Sends the request of a batch, and classifies its outcome."""

    pusher: Pusher
    clock: Clock
    new_span_id: Callable[[], str] | None = None  # ``None``: requests carry no trace context
    has_replay_header: bool = False  # requests of a replay name it
    keeps_answers: bool = True  # the outcome of a request that failed has the answer

    async def __call__(self, request: PushRequest) -> Attempted | Shortage:
        """Push *request*; whatever is wrong with an event is its outcome."""
        part = request.part
        profile, began_at = part.terms.profile, self.clock.now()
        late = _late_handler(request, profile.late_answers_for, began_at)
        try:
            outbound = push_request(
                part.subscription,
                part.terms,
                request.batch,
                began_at,
                new_span_id=self.new_span_id,
                names_replay=self.has_replay_header,
            )
            exchange = await self.pusher.send(outbound, profile.acknowledgement_timeout, late)
        except Exception as error:  # noqa: BLE001 - one event never harms its group
            if is_shortage(error):
                return Shortage(repr(error))
            exchange = NotAnswered(Failure.FAULT, repr(error), 0.0)
        if isinstance(exchange, NotAnswered) and exchange.failure is Failure.SHORTAGE:
            return Shortage(exchange.detail)
        outcome = classify(exchange, profile.success_codes)
        has_failed = outcome.outcome is not Outcome.DELIVERED
        if self.keeps_answers and has_failed and isinstance(exchange, Answered):
            first = request.batch[0].system_id(part.key)
            answer = endpoint_answer(exchange, part.subscription, first)
            outcome = replace(outcome, answer=answer)
        return Attempted(outcome, began_at, self.clock.now(), request.jitter, request.batch[0])


def _late_handler(
    request: PushRequest, until: timedelta | None, began_at: datetime
) -> LateAnswerHandler | None:
    return LateAnswerHandler(until, partial(_answered_late, request, began_at)) if until else None


def _answered_late(request: PushRequest, began_at: datetime, answer: Answered) -> None:
    """Tell all whose events were in the request that these are delivered."""
    outcome = classify(answer, request.part.terms.profile.success_codes)
    if outcome.outcome is Outcome.DELIVERED:  # Otherwise the attempt counts as failed already.
        request.part.endpoint.succeeded_late(request, outcome, began_at)
