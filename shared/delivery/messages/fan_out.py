"""
Turns publications into fan-out messages, as few as reasonable.

A subscription that fills a message by itself gets its own: what fails together is then retried
together. The remainders of all subscriptions share messages.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from shared.delivery.delivery import Delivery
from shared.delivery.messages.message import Part, encode_fan_out
from shared.delivery.messages.packing import (
    EVENT_WIDTH,
    HEADER_WIDTH,
    MAX_MESSAGE_EVENTS,
    MAX_STORED,
    MAX_UNPACKED,
    most_events,
    origins_width,
    pack,
    split,
    surely_fits,
)
from shared.delivery.messages.publication import Publication

_PART_WIDTH = 32  # bytes of a part, without its names and places
_PLACE_WIDTH = 6  # bytes of a place in a part at their longest
_MOST_OPEN = 8  # messages that a part is tried with


Places = tuple[int, ...]


class FanOut(NamedTuple):
    """The text of a message, and the publications that have events in it, counted from 0."""

    text: str
    publications: frozenset[int]


def fan_out(publications: Sequence[Publication]) -> list[FanOut]:
    """Return the messages of publications that are stored together."""
    events: list[Delivery] = []
    sources: list[int] = []
    wanted: defaultdict[tuple[str, str, str, int], list[int]] = defaultdict(list)
    for number, publication in enumerate(publications):
        first = len(events)
        events += publication.deliveries()
        sources += [number] * len(publication.texts)
        for each, positions in publication.matched:
            header = each.topic, each.name, each.generation, each.batching.max_events
            wanted[header] += [first + position for position in positions]
    parts = [Part(*header, tuple(places)) for header, places in wanted.items()]
    return _Packing(events, sources).messages(parts)


class _Packing:
    """
    The events of one commit; parts count them all. Packed texts of equal selections are shared.
    """

    def __init__(self, events: Sequence[Delivery], sources: Sequence[int]) -> None:
        self._events = events
        self._sources = sources
        self._packed: dict[Places, str] = {}
        self._groups: dict[tuple[Places, int], list[Places]] = {}

    def messages(self, parts: Sequence[Part]) -> list[FanOut]:
        own: list[list[Part]] = []
        remainders: list[Part] = []
        for part in parts:
            for places in self._grouped(part.places, part.batch_size):
                group = Part(*part[:-1], places)
                if len(places) < most_events(part.batch_size):
                    remainders.append(group)
                else:
                    own.append([group])
        # Parts with the same events stand together: sharing a message, they cost little.
        remainders.sort(key=lambda part: part.places)
        shared = self._shared(remainders)
        return [message for group in [*own, *shared] for message in self._encoded(group)]

    def _grouped(self, places: Places, batch_size: int) -> list[Places]:
        """Divide the events of a subscription into groups that fit into a message each."""
        key = places, batch_size
        if key not in self._groups:
            group = [self._events[place] for place in places]
            if len(group) <= most_events(batch_size) and surely_fits(group, batch_size):
                self._groups[key] = [places]
            else:
                self._groups[key] = self._split(places, batch_size, group)
        return self._groups[key]

    def _split(self, places: Places, batch_size: int, group: Sequence[Delivery]) -> list[Places]:
        groups, start = [], 0
        for members, packed in split(group, batch_size):
            groups.append(places[start : start + len(members)])
            self._packed[groups[-1]] = packed
            start += len(members)
        return groups

    def _shared(self, parts: Sequence[Part]) -> list[list[Part]]:
        """Put parts into the first message that has room for all deliveries of each."""
        opened: list[_Opened] = []
        for part in parts:
            places = frozenset(part.places)
            for message in opened[-_MOST_OPEN:]:
                if message.count + len(places) > MAX_MESSAGE_EVENTS:
                    continue
                new = self._size(places - message.places)
                if not new or message.size + new <= MAX_UNPACKED:
                    break
            else:
                message = _Opened()
                opened.append(message)
                new = self._size(places)
            message.add(part, new)
        return [message.parts for message in opened]

    def _encoded(self, parts: list[Part]) -> Iterator[FanOut]:
        """Yield the parts as one message; as several if they turn out to be too large for one."""
        while parts:
            count = len(parts)
            while True:
                places = _union(parts[:count])
                packed = self._pack(places)
                width = self._width(parts[:count], places, packed)
                if width <= MAX_STORED or count == 1:  # One part was judged when it was grouped.
                    break
                count = max(1, min(count - 1, count * MAX_STORED // width))
            yield self._message(parts[:count], places, packed)
            parts = parts[count:]

    def _message(self, parts: Sequence[Part], places: Places, packed: str) -> FanOut:
        index = {place: number for number, place in enumerate(places)}
        text = encode_fan_out(
            [self._events[place] for place in places],
            [Part(*part[:-1], tuple([index[place] for place in part.places])) for part in parts],
            packed,
        )
        return FanOut(text, frozenset(self._sources[place] for place in places))

    def _width(self, parts: Sequence[Part], places: Places, packed: str) -> int:
        """Return the longest text that the message, or one of a part of it, can have."""
        origins = {self._events[place].origin for place in places}
        named = sum(_PART_WIDTH + sum(map(len, part[:3])) for part in parts)
        listed = _PLACE_WIDTH * sum(len(part.places) for part in parts)
        counters = EVENT_WIDTH * len(places)
        return HEADER_WIDTH + origins_width(origins) + counters + named + listed + len(packed)

    def _pack(self, places: Places) -> str:
        if places not in self._packed:
            texts = [text for place in places if (text := self._events[place].text) is not None]
            self._packed[places] = pack(texts) if texts else ""
        return self._packed[places]

    def _size(self, places: frozenset[int]) -> int:
        return sum(len(self._events[place].text or "") for place in places)


class _Opened:
    """A message that may take more parts; *size* is that of its events unpacked."""

    def __init__(self) -> None:
        self.parts: list[Part] = []
        self.count = self.size = 0
        self.places: frozenset[int] = frozenset()

    def add(self, part: Part, size: int) -> None:
        self.parts.append(part)
        self.places |= frozenset(part.places)
        self.count += len(part.places)
        self.size += size


def _union(parts: Sequence[Part]) -> Places:
    if len(parts) == 1:
        return parts[0].places
    return tuple(sorted({place for part in parts for place in part.places}))
