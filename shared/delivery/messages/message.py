"""Writes queue messages: deliveries of one subscription, or first attempts of several."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, NamedTuple

from shared.delivery.delivery import Delivery, Origin
from shared.delivery.messages.packing import pack, split
from shared.delivery.messages.run_length import run_lengths, spans_of
from shared.delivery.policy import EndReason
from shared.delivery.requests.custom_headers import header_texts
from shared.events.topic import InputSchema
from shared.subscriptions.subscription import (
    UNMATCHED,
    DeadLetterDestination,
    DeliveryHeader,
    DeliverySchema,
    SubscriptionKey,
)

VERSION = 4
_REPLAY_VERSION = 4  # of steps of replays
_LATER_VERSION = 3  # of deliveries with what it added
_PLAIN_VERSION = 2  # of all others
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_compact = json.JSONEncoder(separators=(",", ":")).encode


class Kind(StrEnum):
    """
    The purpose of a message: deliveries to push, or dead letters to write.

    `FANOUT` has first attempts of several subscriptions, which share the texts of the events.
    `REPLAY` has no deliveries: it asks for the next step of a job.
    """

    FANOUT = "fanout"
    DELIVERY = "delivery"
    DEADLETTER = "deadletter"
    REPLAY = "replay"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterNote:
    """
    What dead letters need beside their events, decided when these ended.

    A failed write is repeated until *keep_until*; then the events are dropped. *headers* are the
    custom headers that the dead letter names; only namespaces' dead letters do.
    """

    reason: EndReason
    keep_until: datetime
    destination: DeadLetterDestination
    topic_id: str
    input_schema: InputSchema
    delivery_schema: DeliverySchema
    headers: tuple[DeliveryHeader, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryMessage:
    """
    Deliveries of one subscription that are due together.

    The *generation* ``UNMATCHED`` means that the filter is still to be applied. *due* is ``None``
    for a first attempt. *rounds* counts returns from a poison queue. At most
    *batch_size* events share a request. With a *dead_letter* note the deliveries have ended and
    wait for their *blob*, whose path a message has from shortly before it is written.
    """

    topic: str
    subscription: str
    generation: str
    deliveries: tuple[Delivery, ...]
    due: datetime | None = None
    rounds: int = 0
    batch_size: int = 1
    dead_letter: DeadLetterNote | None = None
    blob: str = ""

    @property
    def key(self) -> SubscriptionKey:
        """The subscription that gets the events."""
        return SubscriptionKey(self.topic, self.subscription)


class Part(NamedTuple):
    """
    One subscription's share of a fan-out message.

    *places* counts the message's events from 0, in ascending order.
    """

    topic: str
    subscription: str
    generation: str
    batch_size: int
    places: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayStep:
    """A message that asks for the *number*-th step of the replay *job*."""

    job: str
    number: int


class NewerMessage(NamedTuple):
    """A message of a newer version of the app, which only that version can read."""

    version: int


def encode_step(step: ReplayStep) -> str:
    """Return the text of a message that asks for a step of a replay."""
    return _compact(
        {
            "pushgrid": _REPLAY_VERSION,
            "kind": Kind.REPLAY,
            "job": step.job,
            "number": step.number,
        }
    )


def encode(message: DeliveryMessage) -> list[str]:
    """Return the texts of one queue message or, if the deliveries don't fit, of several."""
    return [text for _, text in encode_parts(message)]


def encode_parts(message: DeliveryMessage) -> Iterator[tuple[DeliveryMessage, str]]:
    """Yield messages that fit into a queue message each, with their texts."""
    for group, packed in split(message.deliveries, message.batch_size):
        yield replace(message, deliveries=tuple(group)), encode_group(message, group, packed)


def encode_remaining(message: DeliveryMessage) -> str:
    """Return the text of a message some of whose deliveries were removed."""
    texts = [delivery.text for delivery in message.deliveries if delivery.text is not None]
    return encode_group(message, message.deliveries, pack(texts) if texts else "")


def encode_group(message: DeliveryMessage, group: Sequence[Delivery], packed: str) -> str:
    """Return the text of one group whose events are packed; *message* gives everything else."""
    origins = list(dict.fromkeys(delivery.origin for delivery in group))
    wire: dict[str, Any] = {
        "pushgrid": _version(origins, [message.generation], message.dead_letter),
        "kind": Kind.DEADLETTER if message.dead_letter else Kind.DELIVERY,
        "topic": message.topic,
        "subscription": message.subscription,
        "generation": message.generation,
    }
    if message.due:
        wire["due"] = _micros(message.due)
    if message.rounds:
        wire["rounds"] = message.rounds
    if message.batch_size > 1:
        wire["batch"] = message.batch_size
    if message.dead_letter:
        wire["note"] = _note(message.dead_letter)
    wire["origins"] = [_origin(origin) for origin in origins]
    wire["runs"] = _runs(group, {origin: index for index, origin in enumerate(origins)})
    wire["packed"] = packed
    return _compact(wire)


def with_blob(text: str, path: str) -> str:
    """Return the text of a message of dead letters with the path of the blob that gets them."""
    return _compact({**json.loads(text), "blob": path})


def encode_fan_out(events: Sequence[Delivery], parts: Sequence[Part], packed: str) -> str:
    """
    Return the text of a message of first attempts.

    *events* are distinct, and each is in a part; *packed* has their texts.
    """
    origins = list(dict.fromkeys(event.origin for event in events))
    numbers = {origin: number for number, origin in enumerate(origins)}
    wire = {
        "pushgrid": _version(origins, [part.generation for part in parts]),
        "kind": Kind.FANOUT,
        "origins": [_origin(origin) for origin in origins],
        "events": [[numbers[run.sample.origin], run.spans] for run in run_lengths(events)],
        "parts": [[*part[:-1], spans_of(part.places)] for part in parts],
        "packed": packed,
    }
    return _compact(wire)


def _version(
    origins: Sequence[Origin], generations: Sequence[str], note: DeadLetterNote | None = None
) -> int:
    """Return the earliest version that can read the message: two may run side by side."""
    has_account = note is not None and note.destination.account
    is_newer = UNMATCHED in generations or has_account or any(origin.trace for origin in origins)
    return _LATER_VERSION if is_newer else _PLAIN_VERSION


def _origin(origin: Origin) -> list[Any]:
    written = [origin.publish_id, _micros(origin.published_at), origin.payload]
    if origin.trace:
        return [*written, origin.first_line, *filter(None, origin.trace)]
    return [*written, origin.first_line] if origin.first_line else written


def _runs(group: Sequence[Delivery], origins: dict[Origin, int]) -> list[list[Any]]:
    """Return ``[origin, spans, attempts, outcome, status, at]`` for each run length."""
    written = []
    for delivery, spans in run_lengths(group):
        run: list[Any] = [origins[delivery.origin], spans, delivery.attempts]
        if last := delivery.last:
            run += [last.outcome, last.status, _micros(last.at)]
        written.append(run)
    return written


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
