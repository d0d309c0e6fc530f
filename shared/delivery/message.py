"""A group of deliveries of one subscription as one queue message, and its wire form."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, NamedTuple

from shared.delivery.delivery import Attempt, Delivery, Origin
from shared.delivery.outcome import Outcome
from shared.delivery.packing import split, unpack
from shared.delivery.policy import EndReason
from shared.errors import MalformedMessage
from shared.events.topic import InputSchema
from shared.subscriptions.subscription import DeadLetterDestination, DeliverySchema

VERSION = 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Kind(StrEnum):
    """What a message asks for. ``fanout`` is reserved."""

    DELIVERY = "delivery"
    DEADLETTER = "deadletter"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterNote:
    """Everything but the events that writing dead letters takes, decided when they ended."""

    reason: EndReason
    ended_at: datetime
    destination: DeadLetterDestination
    topic_id: str
    input_schema: InputSchema
    delivery_schema: DeliverySchema


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryMessage:
    """
    Deliveries of one subscription that are due together.

    *due* is ``None`` for a first attempt. *rounds* counts how often the message came back from a
    poison queue. With a *dead_letter* note the deliveries have ended and wait for their blob.
    """

    topic: str
    subscription: str
    generation: str
    deliveries: tuple[Delivery, ...]
    due: datetime | None = None
    rounds: int = 0
    dead_letter: DeadLetterNote | None = None


class NewerMessage(NamedTuple):
    """A message that a newer version of the app wrote; only that version can read it."""

    version: int


def encode(message: DeliveryMessage) -> list[str]:
    """Write a message as the text of one or, where it no longer fits, several queue messages."""
    deliveries, texts = message.deliveries, []
    start = 0
    for count, packed in split([d.text for d in deliveries], [d.origin for d in deliveries]):
        texts.append(encode_group(message, deliveries[start : start + count], packed))
        start += count
    return texts


def encode_group(message: DeliveryMessage, group: Sequence[Delivery], packed: str) -> str:
    """Write one group, whose texts are already packed; *message* gives everything else."""
    origins = list(dict.fromkeys(delivery.origin for delivery in group))
    wire: dict[str, Any] = {
        "pushgrid": VERSION,
        "kind": Kind.DEADLETTER if message.dead_letter else Kind.DELIVERY,
        "topic": message.topic,
        "subscription": message.subscription,
        "generation": message.generation,
    }
    if message.due:
        wire["due"] = _micros(message.due)
    if message.rounds:
        wire["rounds"] = message.rounds
    if message.dead_letter:
        wire["note"] = _note(message.dead_letter)
    wire["origins"] = [[o.publish_id, _micros(o.published_at), o.payload] for o in origins]
    wire["runs"] = list(_runs(group, {origin: index for index, origin in enumerate(origins)}))
    wire["packed"] = packed
    return json.dumps(wire, separators=(",", ":"))


def decode(text: str | bytes) -> DeliveryMessage | NewerMessage:
    """
    Read a queue message.

    Raises:
        MalformedMessage: it is not one of ours, or damaged.
    """
    try:
        wire = json.loads(text)
        if wire["pushgrid"] > VERSION:
            return NewerMessage(wire["pushgrid"])
        return DeliveryMessage(
            topic=str(wire["topic"]),
            subscription=str(wire["subscription"]),
            generation=str(wire["generation"]),
            deliveries=tuple(_deliveries(wire)),
            due=_moment(wire["due"]) if "due" in wire else None,
            rounds=int(wire.get("rounds", 0)),
            dead_letter=_read_note(wire["note"]) if wire["kind"] == Kind.DEADLETTER else None,
        )
    except (ValueError, TypeError, KeyError, IndexError, OverflowError, zlib.error) as error:
        raise MalformedMessage(f"not a delivery message: {error!r}") from error


def _runs(group: Sequence[Delivery], origins: dict[Origin, int]) -> Iterator[list[Any]]:
    """Yield ``[origin, first position, count, attempts, outcome, status, at]`` for like events."""
    run: list[Any] = []
    previous: Delivery | None = None
    for delivery in group:
        if previous and _continues(previous, delivery):
            run[2] += 1
        else:
            if run:
                yield run
            run = [origins[delivery.origin], delivery.position, 1, delivery.attempts]
            if last := delivery.last:
                run += [last.outcome, last.status, _micros(last.at)]
        previous = delivery
    if run:
        yield run


def _continues(previous: Delivery, delivery: Delivery) -> bool:
    return (
        delivery.position == previous.position + 1
        and delivery.attempts == previous.attempts
        and delivery.last == previous.last
        and delivery.origin == previous.origin
    )


def _deliveries(wire: dict[str, Any]) -> Iterator[Delivery]:
    origins = [Origin(str(id_), _moment(at), payload) for id_, at, payload in wire["origins"]]
    texts = iter(unpack(wire["packed"]))
    for number, first, count, attempts, *rest in wire["runs"]:
        origin = origins[number]
        last = Attempt(Outcome(rest[0]), rest[1], _moment(rest[2])) if rest else None
        for position in range(first, first + count):
            text = None if origin.payload else next(texts, None)
            if text is None and not origin.payload:
                raise ValueError("fewer events than counted")
            yield Delivery(
                origin=origin, position=position, text=text, attempts=attempts, last=last
            )
    if next(texts, None) is not None:
        raise ValueError("more events than counted")


def _note(note: DeadLetterNote) -> list[Any]:
    return [
        note.reason,
        _micros(note.ended_at),
        note.destination.account,
        note.destination.container,
        note.topic_id,
        note.input_schema,
        note.delivery_schema,
    ]


def _read_note(wire: list[Any]) -> DeadLetterNote:
    reason, ended_at, account, container, topic_id, input_schema, delivery_schema = wire
    return DeadLetterNote(
        reason=EndReason(reason),
        ended_at=_moment(ended_at),
        destination=DeadLetterDestination(account=account, container=container),
        topic_id=str(topic_id),
        input_schema=InputSchema(input_schema),
        delivery_schema=DeliverySchema(delivery_schema),
    )


def _micros(moment: datetime) -> int:
    return (moment - _EPOCH) // _MICROSECOND


def _moment(micros: int) -> datetime:
    return _EPOCH + timedelta(microseconds=micros)
