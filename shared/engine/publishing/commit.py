"""Stores publications together: a payload blob if they need one, then their messages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import NamedTuple

from shared.delivery.delivery import Delivery
from shared.delivery.messages.message import MessagePart
from shared.delivery.messages.message_writer import encode_together
from shared.delivery.messages.publication import Load, Publication, first_deliveries
from shared.engine.ports import OffLoop, PayloadStore, Queue, Sender
from shared.errors import StorageUnavailable

CommitResult = StorageUnavailable | None
# Gets the publications that are stored, by number, and the numbers of those in each message.
Report = Callable[[Mapping[int, Publication], Sequence[Collection[int]]], None]

# So much is packed into messages at once, in two or three milliseconds.
QUICK_PACK = Load(requests=64, deliveries=1024, size=256 * 1024)


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """Stores publications together: one commit for several requests."""

    payloads: PayloadStore
    sender: Sender
    message_size: int
    off_loop: OffLoop
    report: Report

    async def run(self, publications: Sequence[Publication]) -> list[CommitResult]:
        """
        Return for each publication why it may not be stored; ``None``: it is.

        Only those fail whose events were in the blob or in a message that may not be stored.

        Raises:
            StorageUnavailable: no thread can be had; no message is stored.
        """
        failed: dict[int, StorageUnavailable] = {}
        try:
            publications = await self._with_blob(publications)
        except StorageUnavailable as error:
            failed = {i: error for i, each in enumerate(publications) if each.parked}
        left = [i for i in range(len(publications)) if i not in failed]
        pack = partial(fan_out, [publications[i] for i in left], self.message_size)
        load = reduce(Load.plus, (publications[i].load for i in left), Load())
        messages = await self.off_loop(pack) if load.exceeds(QUICK_PACK) else pack()
        texts = [message.text for message in messages]
        puts = await self.sender.put_all(Queue.DELIVERIES, texts)
        sharing = [[left[i] for i in message.publications] for message in messages]
        for numbers, put in zip(sharing, puts, strict=True):
            if isinstance(put, StorageUnavailable):
                failed |= dict.fromkeys(numbers, put)
        self.report({i: publications[i] for i in left if i not in failed}, sharing)
        return [failed.get(i) for i in range(len(publications))]

    async def _with_blob(self, publications: Sequence[Publication]) -> Sequence[Publication]:
        """Store the events that do not fit into messages; return publications with its name."""
        parked = [each for each in publications if each.parked]
        if not parked:
            return publications
        write = partial(
            self.payloads.write,
            parked[0].origin.publish_id,
            max(each.keep_until for each in parked),
            [line for each in parked for line in each.parked],
        )
        name = await self.off_loop(write)
        named, first_line = [], 0
        for each in publications:
            origin = each.origin._replace(payload=name, first_line=first_line)
            named.append(replace(each, origin=origin) if each.parked else each)
            first_line += len(each.parked)
        return named


class FanOut(NamedTuple):
    """The text of a message, and the publications that have events in it, counted from 0."""

    text: str
    publications: frozenset[int]


def fan_out(publications: Sequence[Publication], message_size: int) -> list[FanOut]:
    """Return the messages of publications that are stored together."""
    events = [first_deliveries(each.origin, each.texts, each.parked) for each in publications]
    source = {id(each): number for number, group in enumerate(events) for each in group}
    wanted: defaultdict[tuple[str, str, str, int], list[Delivery]] = defaultdict(list)
    for publication, group in zip(publications, events, strict=True):
        for each, positions in publication.matched:
            header = each.topic, each.name, each.generation, each.batching.max_events
            wanted[header] += [group[position] for position in positions]
    parts = [
        MessagePart(
            topic=topic,
            subscription=subscription,
            generation=generation,
            batch_size=batch_size,
            deliveries=tuple(deliveries),
        )
        for (topic, subscription, generation, batch_size), deliveries in wanted.items()
    ]
    return [
        FanOut(text, frozenset(source[id(each)] for part in together for each in part.deliveries))
        for together, text in encode_together(parts, message_size)
    ]
