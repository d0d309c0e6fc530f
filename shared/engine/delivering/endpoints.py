"""Keeps the endpoints of this process."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from shared.delivery.health.endpoint_health import Health, endpoint_id
from shared.delivery.messages.message import MessagePart
from shared.delivery.pace import Limit, Returns, Speed
from shared.engine.caching.health_table import TableHealth
from shared.engine.delivering.commons import Commons
from shared.engine.delivering.endpoint import SOONEST_BACK, Endpoint
from shared.engine.delivering.shared_health import SharedHealth
from shared.engine.ports import Metrics, OffLoop
from shared.subscriptions.subscription import EventSubscription, SubscriptionKey

MOST = 10_000  # remembered while idle


@dataclass(slots=True, kw_only=True)
class Endpoints:
    """All endpoints that were pushed to of late, one for each subscription."""

    commons: Commons
    limit: Limit  # of an endpoint of which nothing is known
    health: TableHealth
    off_loop: OffLoop
    metrics: Metrics
    known: OrderedDict[SubscriptionKey, Endpoint] = field(default_factory=OrderedDict)
    _former: list[Endpoint] = field(default_factory=list)  # before a correction, until idle

    @property
    def all(self) -> Sequence[Endpoint]:
        """Those that are known, and those with something left of before a correction."""
        self._former = [each for each in self._former if not each.is_idle]
        return [*self.known.values(), *self._former]

    def of(self, subscription: EventSubscription) -> Endpoint:
        """Return the endpoint of a subscription; a corrected endpoint starts with no history."""
        key, id_ = subscription.key.folded, endpoint_id(subscription)
        endpoint = self.known.get(key)
        if endpoint is None or endpoint.id != id_:
            self._evict()
            if endpoint:
                self._former.append(endpoint)
            endpoint = self.known[key] = self._new(subscription)
        self.known.move_to_end(key)
        return endpoint

    def speed_of(self, keys: Iterable[SubscriptionKey]) -> Speed:
        """Return the speed of the quickest of these endpoints."""
        known = [self.known.get(key.folded) for key in keys]
        speeds = {each.speed if each else Speed.UNKNOWN for each in known}
        return next(each for each in (Speed.QUICK, Speed.UNKNOWN, Speed.SLOW) if each in speeds)

    def book_return(self, part: MessagePart) -> datetime:
        """Book the return of a part for which there is no memory; at once if the host stops."""
        endpoint, now = self.known.get(part.key.folded), self.commons.clock.now()
        if self.commons.budget.is_stopping:
            return now
        texts = [each.text for each in part.deliveries]
        return endpoint.book_return(texts) if endpoint else now + SOONEST_BACK

    def leftovers(self) -> Iterator[str]:
        """Yield what is in lines or under way."""
        for endpoint in self.all:
            if not endpoint.is_idle:
                open_ = sum(part.open for part in endpoint.parts)
                line = "/".join(endpoint.key)
                yield f"line {line}: deliveries {open_}, pushes {endpoint.under_way}"
        yield from self.commons.budget.leftovers()

    def stop(self) -> None:
        """Let nothing more be pushed: what waits in lines goes back at once."""
        self.commons.budget.stop()
        for endpoint in self.all:
            endpoint.wake()

    def _new(self, subscription: EventSubscription) -> Endpoint:
        return Endpoint(
            subscription=subscription,
            health=SharedHealth(
                key=subscription.key.folded,
                health=Health(endpoint=endpoint_id(subscription)),
                store=self.health,
                off_loop=self.off_loop,
                clock=self.commons.clock,
                metrics=self.metrics,
                tasks=self.commons.tasks,
            ),
            commons=self.commons,
            limit=self.limit,
            returns=Returns(self.commons.clock.now()),
        )

    def _evict(self) -> None:
        """Forget the endpoint that was idle for longest, if there are too many."""
        if len(self.known) >= MOST:
            key = next((key for key, each in self.known.items() if each.is_idle), None)
            if key:
                del self.known[key]
