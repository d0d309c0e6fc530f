"""Writes queue messages: parts that are due together, in as few texts as fit."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any

from shared.delivery.delivery import Attempt, Delivery, Origin
from shared.delivery.messages.message import (
    EPOCH,
    VERSION,
    DeadLetterNote,
    DeliveryMessage,
    ReplayStep,
)
from shared.delivery.messages.packing import (
    MAX_BLOBS,
    MAX_MESSAGE_EVENTS,
    MAX_STORED,
    MAX_UNPACKED,
    most_events,
    pack,
    split,
    surely_fits,
)
from shared.delivery.messages.run_length import spans_of
from shared.delivery.requests.custom_headers import header_texts

_MOST_OPEN = 8  # messages that a part is tried with
_MICROSECOND = timedelta(microseconds=1)
_compact = json.JSONEncoder(separators=(",", ":")).encode

Parts = tuple[DeliveryMessage, ...]
_Places = tuple[int, ...]  # of events in a table, from 0
_Counters = tuple[int, int, Attempt | None]  # of so many deliveries: attempts, the last one


def encode_together(parts: Iterable[DeliveryMessage]) -> Iterator[tuple[Parts, str]]:
    """
    Yield queue messages, as few as reasonable: the parts of each, and its text.

    A part that fills a message by itself gets its own: what fails together is then retried
    together. The others share messages if they have equal *due* and *rounds* and are no dead
    letters. A part is cut only where it does not fit whole.
    """
    alike: defaultdict[object, list[DeliveryMessage]] = defaultdict(list)
    for part in parts:
        alike[part.due, part.rounds, part.dead_letter, part.blob].append(part)
    for group in alike.values():
        yield from _Packing().messages(group)


def encode_parts(message: DeliveryMessage) -> Iterator[tuple[DeliveryMessage, str]]:
    """Yield what `encode_together` makes of one part: its pieces, with their texts."""
    for (part,), text in encode_together([message]):
        yield part, text


def encode(message: DeliveryMessage) -> list[str]:
    """Return the texts of what `encode_together` makes of one part."""
    return [text for _, text in encode_together([message])]


def encode_remaining(*parts: DeliveryMessage) -> str:
    """Return the text of a message some of whose deliveries were removed, and so parts, too."""
    return _Packing().text([part for part in parts if part.deliveries])


def encode_step(step: ReplayStep) -> str:
    """Return the text of a message that asks for a step of a replay."""
    return _compact({"pushgrid": VERSION, "job": step.job, "number": step.number})


def with_blob(text: str, path: str) -> str:
    """Return the text of a message of dead letters with the path of the blob that gets them."""
    return _compact({**json.loads(text), "blob": path})


class _Packing:
    """
    Divides parts that are alike among messages.

    It has a table of their events; equal selections of these are packed once.
    """

    def __init__(self) -> None:
        self._events: list[Delivery] = []
        self._place_of: dict[object, int] = {}
        self._packed: dict[_Places, str] = {}
        self._sizes: dict[object, list[int]] = {}

    def messages(self, parts: Sequence[DeliveryMessage]) -> Iterator[tuple[Parts, str]]:
        """Yield the parts of each message, and its text."""
        own: list[list[DeliveryMessage]] = []
        remainders: list[DeliveryMessage] = []
        for part in parts:
            for piece in self._pieces(part):
                is_full = len(piece.deliveries) >= most_events(piece.batch_size)
                if is_full or piece.dead_letter or len(parts) == 1:
                    own.append([piece])
                else:
                    remainders.append(piece)
        # Parts with the same events stand together: sharing a message, they cost little.
        remainders.sort(key=lambda part: self._places(part.deliveries))
        for group in [*own, *self._shared(remainders)]:
            yield from self._encoded(group)

    def text(self, parts: Sequence[DeliveryMessage]) -> str:
        """Return the text of a message with these parts."""
        places = [self._places(part.deliveries) for part in parts]
        selected = self._union(places)
        events = [self._events[place] for place in selected]
        number_of = {place: number for number, place in enumerate(selected)}
        origins = list(dict.fromkeys(event.origin for event in events))
        origin_number = {origin: number for number, origin in enumerate(origins)}
        first = parts[0]
        wire: dict[str, Any] = {"pushgrid": VERSION}
        if first.due:
            wire["due"] = _micros(first.due)
        if first.rounds:
            wire["rounds"] = first.rounds
        if first.dead_letter:
            wire["note"] = _note(first.dead_letter)
        wire["origins"] = [_origin(origin) for origin in origins]
        wire["events"] = [
            [origin_number[origin], spans_of([event.position for event in group])]
            for origin, group in groupby(events, key=lambda event: event.origin)
        ]
        wire["parts"] = [
            _part(part, [number_of[place] for place in each])
            for part, each in zip(parts, places, strict=True)
        ]
        wire["packed"] = self._pack(selected)
        return _compact(wire)

    def _encoded(self, parts: Sequence[DeliveryMessage]) -> Iterator[tuple[Parts, str]]:
        """Yield parts as one message; as several if they turn out to be too large for one."""
        while parts:
            count, text = len(parts), self.text(parts)
            if count > 1 and len(text) > MAX_STORED:
                sizes = range(1, count)
                fit = bisect_right(sizes, MAX_STORED, key=lambda n: len(self.text(parts[:n])))
                count = max(1, fit)  # One part was judged when it was divided.
                text = self.text(parts[:count])
            yield tuple(parts[:count]), text
            parts = parts[count:]

    def _places(self, deliveries: Iterable[Delivery]) -> _Places:
        """Return the places of the events in the table, which gets those that are new."""
        places = []
        for each in deliveries:
            place = self._place_of.get(id(each))  # first attempts of several parts are shared
            if place is None:
                event = each.origin, each.position, each.text
                place = self._place_of.setdefault(event, len(self._events))
                self._place_of[id(each)] = place
                if place == len(self._events):
                    self._events.append(each)
            places.append(place)
        return tuple(places)

    def _union(self, places: Sequence[_Places]) -> _Places:
        """Return the events of all parts, each once; those of several parts by position."""
        union = tuple(dict.fromkeys(place for each in places for place in each))
        if len(places) == 1:
            return union
        numbers: dict[Origin, int] = {}
        events = [self._events[place] for place in union]
        keys = [(numbers.setdefault(each.origin, len(numbers)), each.position) for each in events]
        return tuple(place for _, place in sorted(zip(keys, union, strict=True)))

    def _pieces(self, part: DeliveryMessage) -> Iterator[DeliveryMessage]:
        """Divide a part into pieces that fit into a message each."""
        places, counters = self._places(part.deliveries), _counters(part.deliveries)
        key = places, part.batch_size, tuple(counters)
        if key not in self._sizes:
            self._sizes[key] = self._split(part)
        if len(self._sizes[key]) == 1:
            yield part
            return
        start = 0
        for size in self._sizes[key]:
            yield replace(part, deliveries=part.deliveries[start : start + size])
            start += size

    def _split(self, part: DeliveryMessage) -> list[int]:
        deliveries, batch_size = part.deliveries, part.batch_size
        if 0 < len(deliveries) <= most_events(batch_size) and surely_fits(deliveries, batch_size):
            return [len(deliveries)]
        return list(split(deliveries, batch_size, lambda group: self._pack(self._places(group))))

    def _pack(self, places: _Places) -> str:
        if places not in self._packed:
            texts = [text for place in places if (text := self._events[place].text) is not None]
            self._packed[places] = pack(texts) if texts else ""
        return self._packed[places]

    def _shared(self, parts: Sequence[DeliveryMessage]) -> list[list[DeliveryMessage]]:
        """Put parts into the first message that has room for all deliveries of each."""
        opened: list[_Opened] = []
        for part in parts:
            events = {place: self._events[place] for place in self._places(part.deliveries)}
            for message in opened[-_MOST_OPEN:]:
                if message.has_room(part, events):
                    break
            else:
                message = _Opened()
                opened.append(message)
            message.add(part, events)
        return [message.parts for message in opened]


class _Opened:
    """A message that may take more parts; *size* is that of its events unpacked."""

    def __init__(self) -> None:
        self.parts: list[DeliveryMessage] = []
        self.count = self.size = 0
        self.events: set[int] = set()
        self.blobs: set[str] = set()

    def has_room(self, part: DeliveryMessage, events: Mapping[int, Delivery]) -> bool:
        if self.count + len(part.deliveries) > MAX_MESSAGE_EVENTS:
            return False
        new = self._size(events)
        blobs = {each.origin.payload for each in events.values() if each.origin.payload}
        return (not new or self.size + new <= MAX_UNPACKED) and len(self.blobs | blobs) <= MAX_BLOBS

    def add(self, part: DeliveryMessage, events: Mapping[int, Delivery]) -> None:
        self.parts.append(part)
        self.count += len(part.deliveries)
        self.size += self._size(events)
        self.events |= events.keys()
        self.blobs |= {each.origin.payload for each in events.values() if each.origin.payload}

    def _size(self, events: Mapping[int, Delivery]) -> int:
        """Return the size of those of *events* that it does not have."""
        return sum(
            len(each.text or "") for place, each in events.items() if place not in self.events
        )


def _part(part: DeliveryMessage, places: Sequence[int]) -> list[Any]:
    """Return ``[topic, subscription, generation, batch size, places, counters]``."""
    names = [part.topic, part.subscription, part.generation, part.batch_size]
    counters = _counters(part.deliveries)
    written = [
        [count, attempts, last.outcome, last.status, _micros(last.at)]
        if last
        else [count, attempts]
        for count, attempts, last in counters
    ]
    return [*names, spans_of(places), *([written] if written else [])]


def _counters(deliveries: Sequence[Delivery]) -> list[_Counters]:
    """Return run lengths of equal counters; none if nothing was tried before."""
    runs = [
        (len(list(group)), attempts, last)
        for (attempts, last), group in groupby(
            deliveries, key=lambda each: (each.attempts, each.last)
        )
    ]
    return [] if runs == [(len(deliveries), 0, None)] else runs


def _origin(origin: Origin) -> list[Any]:
    written = [origin.publish_id, _micros(origin.published_at), origin.payload]
    if origin.trace:
        return [*written, origin.first_line, *filter(None, origin.trace)]
    return [*written, origin.first_line] if origin.first_line else written


def _note(note: DeadLetterNote) -> list[Any]:
    written = [
        note.reason,
        _micros(note.keep_until),
        note.destination.container,
        note.topic_id,
        note.input_schema,
        note.delivery_schema,
        header_texts(note.headers),
    ]
    account = note.destination.account
    return [*written, account] if account else written


def _micros(moment: datetime) -> int:
    return (moment - EPOCH) // _MICROSECOND
