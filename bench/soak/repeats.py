"""
Compares two ways to treat a put that hangs, or whose answer is cut off: refuse, or repeat.

Publishers repeat what is refused, as SDKs and people do. Both ways are played side by side on one
storage, and what subscribers receive more than once is counted.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import secrets
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import NamedTuple

from azure.storage.queue import QueueServiceClient

from bench.load import progress
from bench.soak.state import markdown
from bench.soak.traffic import new_event
from devhost.azurite import Azurite, running_azurite
from devhost.process import running_host
from shared.adapters.group_commit import GroupCommit
from shared.adapters.off_loop import Threads
from shared.adapters.resource_cache import ResourceCache
from shared.adapters.storage.blobs import StoragePayloads
from shared.adapters.storage.clients import StorageClients
from shared.adapters.storage.message_put import NO_RECEIPT, Send
from shared.adapters.storage.queues import StorageSender
from shared.adapters.storage.tables import StorageResources
from shared.clock import SystemClock
from shared.delivery.delivery import Origin
from shared.delivery.messages.publication import Publication, parked_lines
from shared.engine.ports import OffLoop, Queue, Receipt
from shared.engine.publishing.commit import Commit
from shared.errors import StorageUnavailable
from shared.subscriptions.subscription import EventSubscription
from shared.wiring.outbound import storage_pusher
from testbed.arm import Arm
from testbed.host_settings import host_settings
from testbed.storage_proxy import (
    Attack,
    Failure,
    StorageRequest,
    running_storage_proxy,
)
from testbed.subscriber import Push, running_subscriber

PUBLISHERS, ROUNDS = 12, 4  # half of them publish batches
BATCH, SIZE = 60, 4096  # events, and bytes of each: a batch fills several messages
EVERY, HITS = 5, 6  # puts: every fifth is attacked, so many in all
PATIENCE = 120.0  # seconds in which nothing is delivered
REPEATED_AFTER = 0.5  # seconds after a refusal


class PutFault(NamedTuple):
    """What happens to the first tries of a put that is attacked."""

    name: str
    failure: Failure
    tries: int = 1


FAULTS = (
    PutFault("hangs, not stored", Failure.TIMEOUT),
    PutFault("hangs, stored", Failure.STALLED),
    PutFault("hangs twice, not stored", Failure.TIMEOUT, 2),
    PutFault("hangs twice, stored", Failure.STALLED, 2),
    PutFault("201, then cut off", Failure.TRUNCATED),
)


class RepeatResult(NamedTuple):
    """What one way made of one fault, in events unless it says otherwise."""

    fault: str
    way: str
    attacked: int  # puts
    refused: int  # publish requests
    accepted: int
    lost: int
    duplicates: int  # deliveries beyond the first
    unmarked: int  # duplicates with another ``aeg-output-event-id`` than the first
    longest: float  # wait of a publisher, in seconds


class _RefusingSender(StorageSender):
    """Puts that are not repeated after a hang, and that count only if their answer is complete."""

    def __init__(self, account: StorageClients, send: Send, off_loop: OffLoop) -> None:
        super().__init__(account, send, off_loop)
        self._message_put.hangs = 0

    async def put(self, queue: Queue, text: str, visible_in: timedelta = timedelta()) -> Receipt:
        receipt = await super().put(queue, text, visible_in)
        if receipt == NO_RECEIPT:
            raise StorageUnavailable
        return receipt


@dataclass(slots=True, kw_only=True)
class Lane:
    """One way and one fault: its publishers have a topic, and a proxy before the storage."""

    topic: str
    fault: PutFault
    is_repeating: bool
    accepted: set[str] = field(default_factory=set)
    received: Counter[str] = field(default_factory=Counter)
    marks: set[tuple[str, str]] = field(default_factory=set)
    refused: int = 0
    longest: float = 0.0
    _puts: int = 0
    _left: dict[bytes, int] = field(default_factory=dict)

    def attack(self, request: StorageRequest) -> Attack | None:
        """Choose every few puts; all tries of a put have the same body."""
        if request.kind != "queue put deliveries":
            return None
        if request.body not in self._left:
            self._puts += 1
            is_hit = self._puts % EVERY == 0 and self._puts <= EVERY * HITS
            self._left[request.body] = self.fault.tries if is_hit else 0
        self._left[request.body] -= 1
        return Attack(self.fault.failure) if self._left[request.body] >= 0 else None

    def receive(self, push: Push) -> None:
        """Enter a delivery."""
        for event in push.events:
            self.received[event["id"]] += 1
            self.marks.add((event["id"], push.headers["aeg-output-event-id"]))

    def publish_all(self, azurite: Azurite, wanted_by: Sequence[EventSubscription]) -> None:
        """Publish everything, until it is accepted."""
        with running_storage_proxy(azurite) as proxy:
            proxy.attack = self.attack
            account = StorageClients({"": proxy.azurite.connection_string})
            asyncio.run(self._publish_all(account, wanted_by))

    def _store(self, account: StorageClients, send: Send) -> Commit:
        off_loop = Threads(4, self.topic)
        sender = StorageSender if self.is_repeating else _RefusingSender
        return Commit(
            payloads=StoragePayloads(account, SystemClock()),
            sender=sender(account, send, off_loop),
            off_loop=off_loop,
            report=lambda *_: None,
        )

    async def _publish_all(
        self, account: StorageClients, wanted_by: Sequence[EventSubscription]
    ) -> None:
        pusher = storage_pusher()
        try:
            commits = GroupCommit(self._store(account, pusher.send).run)
            counts = [BATCH if number % 2 else 1 for number in range(PUBLISHERS)]
            await asyncio.gather(*(self._publish(commits, wanted_by, each) for each in counts))
        finally:
            await pusher.close()

    async def _publish(
        self, commits: GroupCommit, wanted_by: Sequence[EventSubscription], count: int
    ) -> None:
        for _ in range(ROUNDS):
            added = {"topic": self.topic, "metadataVersion": "1"}
            events = [
                new_event(text=secrets.token_urlsafe(SIZE * 3 // 4)) | added for _ in range(count)
            ]
            texts = [json.dumps(each) for each in events]
            while not await self._is_accepted(commits, texts, wanted_by):  # noqa: ASYNC110 - a retry
                await asyncio.sleep(REPEATED_AFTER)
            self.accepted.update(each["id"] for each in events)

    async def _is_accepted(
        self, commits: GroupCommit, texts: Sequence[str], wanted_by: Sequence[EventSubscription]
    ) -> bool:
        began = time.monotonic()
        try:
            await commits.commit(_publication(self.topic, texts, wanted_by))
        except StorageUnavailable:
            self.refused += 1
            return False
        finally:
            self.longest = max(self.longest, time.monotonic() - began)
        return True

    def row(self) -> RepeatResult:
        return RepeatResult(
            fault=self.fault.name,
            way="repeat" if self.is_repeating else "refuse",
            attacked=min(self._puts // EVERY, HITS),
            refused=self.refused,
            accepted=len(self.accepted),
            lost=len(self.accepted - self.received.keys()),
            duplicates=self.received.total() - len(self.received),
            unmarked=len(self.marks) - len(self.received),
            longest=round(self.longest, 1),
        )


def _publication(
    topic: str, texts: Sequence[str], wanted_by: Sequence[EventSubscription]
) -> Publication:
    """Make a publish request of its own: also of one that is repeated."""
    now = SystemClock().now()
    origin = Origin(uuid.uuid4().hex, now, None)
    matched = [(each, tuple(range(len(texts)))) for each in wanted_by]
    return Publication(
        topic=topic,
        origin=origin,
        texts=texts,
        matched=matched,
        parked=parked_lines(matched, texts, origin),
        keep_until=now + timedelta(days=4),
    )


@contextmanager
def _subscribed(azurite: Azurite, lanes: Sequence[Lane]) -> Iterator[ResourceCache]:
    """Run a host that delivers, past the proxies, and a subscriber of each lane's topic."""
    by_name = {lane.topic: lane for lane in lanes}

    def answer(push: Push) -> int:
        by_name[push.path.rpartition("/")[2]].receive(push)
        return 200

    with ExitStack() as stack:
        hook = stack.enter_context(running_subscriber(answer)).url
        host = stack.enter_context(running_host(host_settings(azurite)))
        for lane in lanes:
            Arm(host.url).create_topic(lane.topic)
            Arm(host.url).create_subscription(lane.topic, "all", f"{hook}/{lane.topic}")
        account = StorageClients({"": azurite.connection_string})
        yield ResourceCache(
            StorageResources(account), cache_for=timedelta(hours=1), clock=time.monotonic
        )


def _await_deliveries(azurite: Azurite, lanes: Sequence[Lane]) -> None:
    """Wait until no queue has a message, or nothing has come for long."""
    seen, since = -1, time.monotonic()
    with QueueServiceClient.from_connection_string(azurite.connection_string) as queues:
        while time.monotonic() - since < PATIENCE:
            named = [queues.get_queue_client(each) for each in queues.list_queues()]
            if not any(each.get_queue_properties().approximate_message_count for each in named):
                return
            if (now := sum(lane.received.total() for lane in lanes)) != seen:
                seen, since = now, time.monotonic()
            time.sleep(1)


def compare(faults: Sequence[PutFault]) -> list[RepeatResult]:
    """Play all faults in both ways, side by side."""
    lanes = [
        Lane(
            topic=f"lane-{number}-{'repeat' if repeats else 'refuse'}",
            fault=fault,
            is_repeating=repeats,
        )
        for number, fault in enumerate(faults)
        for repeats in (False, True)
    ]
    with running_azurite() as azurite, _subscribed(azurite, lanes) as subscriptions:
        with ThreadPoolExecutor(len(lanes)) as threads:
            running = [
                threads.submit(lane.publish_all, azurite, subscriptions.of_topic(lane.topic))
                for lane in lanes
            ]
            for lane, each in zip(lanes, running, strict=True):
                each.result()
                progress(f"{lane.topic}: published")
        _await_deliveries(azurite, lanes)
    return [lane.row() for lane in lanes]


def main(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> int:
    """Print the table; returns 1 if an accepted event was lost."""
    parser.parse_args(arguments)
    rows = compare(FAULTS)
    print(markdown(RepeatResult._fields, rows))
    return 1 if any(row.lost for row in rows) else 0
