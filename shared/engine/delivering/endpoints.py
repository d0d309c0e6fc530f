"""Keeps the endpoints of this process."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Coroutine, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from shared import telemetry
from shared.clock import Clock, Deadline
from shared.delivery.health.endpoint_health import Health, endpoint_id
from shared.delivery.messages.message import MessagePart
from shared.delivery.pace import Limit, Returns, Speed
from shared.engine.caching.health_table import TableHealth
from shared.engine.delivering.budget import Budget
from shared.engine.delivering.endpoint import SOONEST_BACK, Endpoint
from shared.engine.delivering.in_flight import InFlightRequest
from shared.engine.delivering.processes import Processes
from shared.engine.delivering.results import Attempted, Shortage
from shared.engine.delivering.shared_health import SharedHealth
from shared.engine.keeping.event_loop import loop_time
from shared.engine.ports import Metrics, OffLoop, ReserveConnection
from shared.subscriptions.subscription import EventSubscription, SubscriptionKey
from shared.tasks import Tasks

MOST = 10_000  # remembered while idle
SHORTAGES_EVERY = timedelta(minutes=1)


@dataclass(slots=True, kw_only=True)
class Endpoints:
    """All endpoints that were pushed to of late, one for each subscription, and what they use."""

    budget: Budget
    push: Callable[[InFlightRequest], Coroutine[Any, Any, Attempted | Shortage]]
    reserve_connection: ReserveConnection
    # Reads a subscription again.
    as_cached: Callable[[EventSubscription], Coroutine[Any, Any, EventSubscription]]
    clock: Clock
    limit: Limit  # of an endpoint of which nothing is known
    processes: Processes
    health: TableHealth
    off_loop: OffLoop
    metrics: Metrics
    tasks: Tasks
    _known: OrderedDict[SubscriptionKey, Endpoint] = field(default_factory=OrderedDict)
    _shortages: int = 0  # not logged yet
    _next_shortage: Deadline | None = None

    def of(self, subscription: EventSubscription) -> Endpoint:
        """Return the endpoint of a subscription; a corrected endpoint starts with no history."""
        key, id_ = subscription.key.folded, endpoint_id(subscription)
        endpoint = self._known.get(key)
        if endpoint is None or endpoint.id != id_:
            self._evict()
            endpoint = self._known[key] = self._new(subscription)
        self._known.move_to_end(key)
        return endpoint

    def speed_of(self, keys: Iterable[SubscriptionKey]) -> Speed:
        """Return the speed of the quickest of these endpoints."""
        known = [self._known.get(key.folded) for key in keys]
        speeds = {each.speed if each else Speed.UNKNOWN for each in known}
        return next(each for each in (Speed.QUICK, Speed.UNKNOWN, Speed.SLOW) if each in speeds)

    def book_return(self, part: MessagePart) -> datetime:
        """Book the return of a part for which there is no memory; at once if the host stops."""
        endpoint, now = self._known.get(part.key.folded), self.clock.now()
        if self.budget.is_stopping:
            return now
        texts = [each.text for each in part.deliveries]
        return endpoint.book_return(texts) if endpoint else now + SOONEST_BACK

    def log_shortage(self, shortage: Shortage) -> None:
        """Log shortages, once a minute."""
        self._shortages += 1
        if self._next_shortage and not self._next_shortage.has_passed:
            return
        telemetry.error("delivery.shortage", detail=shortage.of, count=self._shortages)
        self._shortages, self._next_shortage = 0, Deadline(SHORTAGES_EVERY, loop_time)

    def leftovers(self) -> Iterator[str]:
        """Yield what is in lines or under way."""
        for key, endpoint in self._known.items():
            if not endpoint.is_idle:
                open_ = sum(part.open for part in endpoint.parts)
                yield f"line {'/'.join(key)}: deliveries {open_}, pushes {endpoint.under_way}"
        yield from self.budget.leftovers()

    def stop(self) -> None:
        """Let nothing more be pushed: what waits in lines goes back at once."""
        self.budget.stop()
        for endpoint in list(self._known.values()):
            endpoint.pump()

    def _new(self, subscription: EventSubscription) -> Endpoint:
        return Endpoint(
            subscription=subscription,
            health=SharedHealth(
                key=subscription.key.folded,
                health=Health(endpoint=endpoint_id(subscription)),
                store=self.health,
                off_loop=self.off_loop,
                clock=self.clock,
                metrics=self.metrics,
                tasks=self.tasks,
            ),
            endpoints=self,
            limit=self.limit,
            returns=Returns(self.clock.now()),
        )

    def _evict(self) -> None:
        """Forget the endpoint that was idle for longest, if there are too many."""
        if len(self._known) >= MOST:
            key = next((key for key, each in self._known.items() if each.is_idle), None)
            if key:
                del self._known[key]
