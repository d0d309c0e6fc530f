"""Writes queue messages: parts that are due together, in as few texts as fit."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any, NamedTuple

from shared.delivery.delivery import Delivery, Origin
from shared.delivery.messages.message import (
    EPOCH,
    VERSION,
    DeadLetterNote,
    MessagePart,
    ReplayStep,
)
from shared.delivery.messages.packing import (
    MAX_BLOBS,
    MAX_MESSAGE_EVENTS,
    MAX_UNPACKED,
    most_events,
    packed,
    split,
)
from shared.delivery.messages.run_length import positions_by_origin, run_lengths, spans_of
from shared.delivery.policy import DeliveryTerms, EndReason
from shared.events.topic import TopicName
from shared.subscriptions.subscription import (
    DeadLetterDestination,
    DeliveryHeader,
    EventSubscription,
    StaticHeader,
)

# Characters of headers in a note: each store has room for them beside the size of a message.
MAX_DEAD_LETTER_HEADERS = 12 * 1024
_MOST_OPEN = 8  # messages that a part is tried with
_MICROSECOND = timedelta(microseconds=1)
_compact = json.JSONEncoder(separators=(",", ":")).encode

_Together = tuple[MessagePart, ...]  # the parts of one message
_Places = tuple[int, ...]  # of events in a table, from 0


class _Piece(NamedTuple):
    """A part or some of its deliveries."""

    part: MessagePart
    places: _Places  # of its events


def encode_together(
    parts: Iterable[MessagePart], message_size: int
) -> Iterator[tuple[_Together, str]]:
    """
    Yield queue messages, as few as reasonable: the parts of each, and its text.

    A text is larger than *message_size* only by the headers of a dead letter.

    A part that fills a message by itself gets its own: what fails together is then retried
    together. The others share messages if they have equal *due* and *rounds* and are no dead
    letters. A part is cut only where it does not fit whole.
    """
    alike: defaultdict[object, list[MessagePart]] = defaultdict(list)
    for part in parts:
        alike[part.due, part.rounds, part.dead_letter].append(part)
    for group in alike.values():
        yield from _Packing().messages(group, message_size)


def encode_remaining(*parts: MessagePart) -> str:
    """Return the text of what is left of a message: its parts that still have deliveries."""
    return _Packing().text(parts)


def encode_step(step: ReplayStep) -> str:
    """Return the text of a message that asks for a step of a replay."""
    return _compact({"pushgrid": VERSION, "job": step.job, "number": step.number})


def with_blob(text: str, path: str) -> str:
    """Return the text of a message of dead letters with the path of the blob that gets them."""
    return _compact({**json.loads(text), "blob": path})


def dead_letter_note(
    subscription: EventSubscription,
    terms: DeliveryTerms,
    destination: DeadLetterDestination,
    reason: EndReason,
    due_at: datetime,
) -> DeadLetterNote:
    """Return the note of what has ended, and whose blob is due then."""
    is_namespace = TopicName.parse(subscription.topic)
    return DeadLetterNote(
        reason=reason,
        keep_until=due_at + terms.scaled(terms.profile.dead_letter_keep),
        destination=destination,
        topic_id=subscription.topic_id,
        input_schema=subscription.input_schema,
        delivery_schema=subscription.delivery_schema,
        headers=dead_letter_headers(terms.headers) if is_namespace else (),
    )


def dead_letter_headers(headers: Sequence[DeliveryHeader]) -> tuple[DeliveryHeader, ...]:
    """Return the headers that a dead letter names: no secrets, and as many as fit."""
    named: list[DeliveryHeader] = []
    room = MAX_DEAD_LETTER_HEADERS
    for each in headers:
        if isinstance(each, StaticHeader) and each.is_secret:
            continue
        room -= len(json.dumps(_header_texts([each])))
        if room < 0:
            break
        named.append(each)
    return tuple(named)


class _Packing:
    """
    Divides parts that are alike among messages.

    It has a table of their events; equal selections of these are packed once.
    """

    def __init__(self) -> None:
        self._events: list[Delivery] = []
        self._place_of: dict[object, int] = {}
        self._texts: dict[_Places, str] = {}

    def messages(self, parts: Sequence[MessagePart], size: int) -> Iterator[tuple[_Together, str]]:
        """Yield the parts of each message, and its text."""
        own: list[list[_Piece]] = []
        remainders: list[_Piece] = []
        for part in parts:
            shares = len(parts) > 1 and not part.dead_letter
            for piece in self._pieces(part, size):
                if shares and len(piece.places) < most_events(part.batch_size):
                    remainders.append(piece)
                else:
                    own.append([piece])
        # Parts with the same events stand together: sharing a message, they cost little.
        remainders.sort(key=attrgetter("places"))
        for group in [*own, *self._shared(remainders)]:
            left = group
            while left:  # It is divided if it turns out to be too large.
                count, text = self._fitting(left, size)
                yield tuple(each.part for each in left[:count]), text
                left = left[count:]

    def text(self, parts: Iterable[MessagePart]) -> str:
        """Return the text of one message with these parts."""
        return self._text([_Piece(part, self._places(part.deliveries)) for part in parts])

    def _places(self, deliveries: Iterable[Delivery]) -> _Places:
        """Return the places of the events in the table, which gets those that are new."""
        places = []
        for each in deliveries:
            place = self._place_of.get(id(each))  # parts share their first attempts
            if place is None:
                event = each.origin, each.position, each.inline
                place = self._place_of.setdefault(event, len(self._events))
                self._place_of[id(each)] = place
                if place == len(self._events):
                    self._events.append(each)
            places.append(place)
        return tuple(places)

    def _pieces(self, part: MessagePart, size: int) -> Iterator[_Piece]:
        """Divide a part into pieces that fit into a message each."""
        places, start = self._places(part.deliveries), 0
        for group in split(part.deliveries, part.batch_size, size, self._packed):
            end = start + len(group)
            whole = len(group) == len(places)
            some = part if whole else replace(part, deliveries=tuple(group))
            yield _Piece(some, places[start:end])
            start = end

    def _shared(self, pieces: Sequence[_Piece]) -> list[list[_Piece]]:
        """Put each piece into the first message that has room for all of it."""
        opened: list[_OpenMessage] = []
        for piece in pieces:
            if not any(message.take(piece, self._events) for message in opened[-_MOST_OPEN:]):
                opened.append(_OpenMessage())
                opened[-1].take(piece, self._events)
        return [message.pieces for message in opened]

    def _fitting(self, pieces: Sequence[_Piece], size: int) -> tuple[int, str]:
        """Return how many of the pieces fit into a message, at least one, and its text."""
        text = self._text(pieces)
        if len(text) <= size or len(pieces) == 1:  # One was judged when it was divided.
            return len(pieces), text
        counts = range(1, len(pieces))
        fit = bisect_right(counts, size, key=lambda count: len(self._text(pieces[:count])))
        return max(1, fit), self._text(pieces[: max(1, fit)])

    def _text(self, pieces: Sequence[_Piece]) -> str:
        """Write pieces that have the same due time, rounds and note."""
        places = tuple(dict.fromkeys(place for each in pieces for place in each.places))
        number_of = {place: number for number, place in enumerate(places)}
        events = [self._events[place] for place in places]
        origins = list(dict.fromkeys(event.origin for event in events))
        origin_number = {origin: number for number, origin in enumerate(origins)}
        first = pieces[0].part
        wire: dict[str, Any] = {"pushgrid": VERSION}
        if first.due:
            wire["due"] = _micros(first.due)
        if first.rounds:
            wire["rounds"] = first.rounds
        if first.dead_letter:
            wire["note"] = _note(first.dead_letter)
        wire["origins"] = [_origin(origin) for origin in origins]
        wire["events"] = [
            [origin_number[origin], spans] for origin, spans in positions_by_origin(events)
        ]
        wire["parts"] = [_part(part, [number_of[place] for place in its]) for part, its in pieces]
        # Base64 needs no escape, and most of the text is that.
        return f'{_compact(wire)[:-1]},"packed":"{self._packed(events)}"}}'

    def _packed(self, events: Sequence[Delivery]) -> str:
        """Pack events of the table; equal selections once."""
        places = self._places(events)
        if places not in self._texts:
            self._texts[places] = packed(events)
        return self._texts[places]


class _OpenMessage:
    """A message that may take more pieces."""

    def __init__(self) -> None:
        self.pieces: list[_Piece] = []
        self._count = self._size = 0
        self._places: set[int] = set()
        self._blobs: set[str] = set()

    def take(self, piece: _Piece, table: Sequence[Delivery]) -> bool:
        """Add a piece if there is room for all its deliveries; the first one always is."""
        new = [table[place] for place in piece.places if place not in self._places]
        count, size = self._count + len(piece.places), sum(len(each.inline or "") for each in new)
        blobs = self._blobs | {each.origin.payload for each in new if each.origin.payload}
        is_large = count > MAX_MESSAGE_EVENTS or len(blobs) > MAX_BLOBS
        if self.pieces and (is_large or (size and self._size + size > MAX_UNPACKED)):
            return False
        self.pieces.append(piece)
        self._count, self._size, self._blobs = count, self._size + size, blobs
        self._places.update(piece.places)
        return True


def _part(part: MessagePart, places: Sequence[int]) -> list[Any]:
    """Return ``[topic, subscription, generation, batch size, places, counters]``."""
    names = [part.topic, part.subscription, part.generation, part.batch_size]
    if all(each.attempts == 0 and each.last is None for each in part.deliveries):
        return [*names, spans_of(places)]
    counters = [
        [count, attempts, *([last.outcome, last.status, _micros(last.at)] if last else [])]
        for count, attempts, last in run_lengths(part.deliveries)
    ]
    return [*names, spans_of(places), counters]


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
        _header_texts(note.headers),
    ]
    account = note.destination.account
    return [*written, account] if account else written


def _header_texts(headers: Sequence[DeliveryHeader]) -> list[list[Any]]:
    """Return each header as its name and its value, or its path in the event."""
    return [
        [each.name, each.value if isinstance(each, StaticHeader) else list(each.path)]
        for each in headers
    ]


def _micros(moment: datetime) -> int:
    return (moment - EPOCH) // _MICROSECOND
