"""Publications, and what becomes of them."""

from __future__ import annotations

from collections.abc import Sequence

from pushgrid.testing.memory import START
from shared.delivery.delivery import Origin
from shared.delivery.messages.message import MessagePart
from shared.delivery.messages.publication import Matched, Publication, fan_out, match, parked_lines
from shared.events.event import Event
from shared.subscriptions.subscription import EventSubscription
from tests.builders import ORIGIN, PARKED
from tests.unit.delivery.messages.wire import read_shared


def a_publication(
    events: Sequence[Event], matched: Matched, origin: Origin | None = None
) -> Publication:
    texts = [event.text for event in events]
    lines = parked_lines(matched, texts, origin or ORIGIN)
    return Publication(
        topic="orders",
        origin=origin or (PARKED if lines else ORIGIN),
        texts=texts,
        matched=matched,
        parked=lines,
        keep_until=START,
    )


def published(
    events: Sequence[Event], *subscriptions: EventSubscription
) -> tuple[Sequence[str], list[MessagePart]]:
    """Return the lines of the payload blob, and the parts of all messages."""
    publication = a_publication(events, match(events, subscriptions))
    messages = read_shared([message.text for message in fan_out([publication])])
    return publication.parked, [part for parts in messages for part in parts]
