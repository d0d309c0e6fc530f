"""Pushes batches as far as health, allowed rate and slots permit, and requeues the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from shared.clock import Clock
from shared.delivery.health.endpoint_health import Held, Observation, Open
from shared.delivery.health.held_deliveries import hold_back
from shared.delivery.outcome import Outcome, classify
from shared.delivery.policy import DeliveryTerms
from shared.delivery.requests.push_batch import PushBatch
from shared.delivery.requests.push_request import push_request
from shared.engine.delivering.allowed_rates import AllowedRates
from shared.engine.delivering.detaching import Detachment
from shared.engine.delivering.push_result import Pushed, Unsent
from shared.engine.delivering.settlement import Settlement
from shared.engine.delivering.shared_health import HealthTracker
from shared.engine.ports import Pusher, PushPool
from shared.http import Failure, NotAnswered
from shared.subscriptions.subscription import EventSubscription

WAIT_FOR_SLOTS = timedelta(seconds=60)  # no push of an invocation begins later


@dataclass(frozen=True, slots=True, kw_only=True)
class Pushing:
    """Pushes to one endpoint concurrently; what can't be sent now is requeued, uncounted."""

    subscription: EventSubscription
    terms: DeliveryTerms
    settlement: Settlement
    health: HealthTracker
    rates: AllowedRates
    pusher: Pusher
    pool: PushPool
    clock: Clock
    detachment: Detachment

    def push(self, rest: list[PushBatch]) -> None:
        """Push everything or requeue it; after a hold one request goes first, as its probe."""
        while rest:
            availability = self.health.availability(self.subscription, self.terms)
            if isinstance(availability, Open):
                self._run(rest)
                return
            if isinstance(availability, Held):
                self._requeue_held(rest, availability)
                return
            if self.health.claim_probe(self.subscription, self.terms):
                probe, *rest = rest
                self._run([probe], behind_probe=rest, is_probe=True)

    def _run(
        self,
        batches: Sequence[PushBatch],
        *,
        behind_probe: Sequence[PushBatch] = (),
        is_probe: bool = False,
    ) -> None:
        """Push until a hold begins; *behind_probe* waits for the end of the probe."""
        key = self.subscription.key.folded
        waiting = dict.fromkeys(batches)
        unsent: dict[PushBatch, Unsent] = {}
        push = partial(self._push, is_probe=is_probe)

        def detach() -> bool:
            self.settlement.flush()
            undecided = [*waiting, *unsent, *behind_probe]
            return self.detachment.begin([each.delivery for batch in undecided for each in batch])

        for finished in self.pool.run(
            key, list(waiting), push, stop_after=WAIT_FOR_SLOTS, detach=detach
        ):
            for batch, result in finished:
                del waiting[batch]
                if isinstance(result, Pushed):
                    self.settlement.attempted(batch, result)
                else:
                    unsent[batch] = result
            self.health.save(self.subscription)
            self.settlement.flush(only_old=True)
        self._requeue_unsent(unsent)
        if waiting:
            not_begun = [loaded.delivery for batch in waiting for loaded in batch]
            self.settlement.put_back(
                not_begun, self.clock.now() + self.pool.pace(key, len(waiting))
            )
        if is_probe and (waiting or unsent):
            self.health.return_probe(self.subscription)
            self.health.save(self.subscription)

    def _push(self, batch: PushBatch, *, is_probe: bool) -> Pushed | Unsent:
        if not is_probe and (held := self.health.find_hold(self.subscription, self.terms)):
            return Unsent(held)
        if due := self.rates.admit(self.subscription):
            return Unsent(due)
        began_at = self.clock.now()
        late = self.settlement.late.handler(batch, partial(self._succeeded_late, began_at))
        try:
            request = push_request(self.subscription, self.terms, batch)
            timeout = self.terms.profile.acknowledgement_timeout
            exchange = self.pusher.send(request, timeout, late)
        except Exception as error:  # noqa: BLE001 - one event never harms its group
            exchange = NotAnswered(Failure.UNSENDABLE, repr(error), 0.0)
        outcome = classify(exchange, self.terms.profile.success_codes)
        pushed = Pushed(outcome, began_at, self.clock.now())
        seen = Observation(
            outcome=outcome.outcome,
            new_events=sum(loaded.delivery.is_new for loaded in batch),
            sent_at=pushed.began_at,
            ended_at=pushed.ended_at,
            is_probe=is_probe,
        )
        self.health.observed(self.subscription, self.terms, seen)
        return pushed

    def _succeeded_late(self, sent_at: datetime) -> None:
        """Record a success after the timeout; it annuls the failure."""
        seen = Observation(
            outcome=Outcome.DELIVERED,
            new_events=0,
            sent_at=sent_at,
            ended_at=self.clock.now(),
            is_late=True,
        )
        self.health.observed(self.subscription, self.terms, seen)
        self.health.save(self.subscription)

    def _requeue_unsent(self, unsent: Mapping[PushBatch, Unsent]) -> None:
        """Requeue what was held, or exceeded the allowed rate."""
        met: dict[PushBatch, Held] = {}
        for batch, result in unsent.items():
            if isinstance(result.blocked_by, Held):
                met[batch] = result.blocked_by
            else:
                self.settlement.put_back([each.delivery for each in batch], result.blocked_by)
        if met:
            self._requeue_held(list(met), max(met.values(), key=lambda held: held.until))

    def _requeue_held(self, batches: Sequence[PushBatch], held: Held) -> None:
        """Requeue what is held; the events of a batch come back together."""
        now = self.clock.now()
        times = self.health.due_times(
            self.subscription,
            held,
            [len(batch) for batch in batches],
            was_held=self.settlement.message.due is not None,
        )
        for batch, due in zip(batches, times, strict=True):
            for delivery, text in batch:
                kept, end = hold_back(delivery, held, self.terms, now)
                if end:
                    self.settlement.ended(kept, text, end)
                else:
                    self.settlement.put_back_held(kept, due)
        self.settlement.held_by = held
        self.health.save(self.subscription)
