"""Starts replays of dead letters, shows how far they are, and cancels them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from shared.arm.arm_json import answer, read_json
from shared.arm.sections import Section, document, raise_faults
from shared.arm.subscription_codec import to_subscription_in_force
from shared.deadletter.batching import dead_letter_folder
from shared.engine.manage.call import Call, ManagePorts
from shared.engine.ports import Table
from shared.engine.replaying.job import ReplayJob, Selection, Source
from shared.engine.replaying.job_document import shown
from shared.errors import UNREADABLE, InvalidDocument, NotFound
from shared.http import HttpAnswer
from shared.subscriptions.subscription import EventSubscription, SubscriptionKey

DEFAULT_RATE, MAX_RATE = 50, 1000  # events a second
MAX_SOURCES = 200
_TEXTS = ("topic", "subscription", "prefix", "reason", "container", "account")


def start_replay(ports: ManagePorts, call: Call) -> HttpAnswer:
    """Store a replay, and answer with it; the app carries it out."""
    body = document(read_json(call.body or b"{}"))
    texts = {name: body.text(name) or "" for name in _TEXTS}
    selection = Selection(
        prefix=texts["prefix"],
        since=body.moment("since"),
        until=body.moment("until"),
        reason=texts["reason"] or None,
    )
    rate = body.number("rate", 1, MAX_RATE)
    is_dry_run, again = body.flag("dryRun"), body.flag("again")
    to = _to(body, texts["topic"])
    if texts["account"] and not texts["container"]:
        body.refuse("account", "account needs a container.")
    elif texts["account"] not in {
        "",
        ports.deployment.account,
        *ports.deployment.dead_letter_accounts,
    }:
        body.refuse("account", f"The operator does not name the account '{texts['account']}'.")
    if texts["container"] and not (to or (texts["topic"] and texts["subscription"])):
        body.refuse("to", "With a container, say which subscription gets the events: 'to'.")
    raise_faults(body.faults)
    if to:
        _check_exists(ports, to)
    now = ports.clock.now()
    job = ReplayJob(
        id=f"{now:%Y%m%d%H%M%S}-{ports.new_id().replace('-', '')[:8]}",
        by=call.by,
        started_at=now,
        sources=tuple(_sources(ports, call, texts)),
        selection=selection,
        to=to,
        rate=rate or DEFAULT_RATE,
        is_dry_run=bool(is_dry_run),
        again=bool(again),
    )
    return answer(202, shown(ports.replays.start(job)))


def list_replays(ports: ManagePorts, call: Call) -> HttpAnswer:
    """Answer the latest replays, the latest first."""
    del call
    return answer(200, {"value": [shown(each) for each in ports.replays.list()]})


def get_replay(ports: ManagePorts, call: Call) -> HttpAnswer:
    """Answer one replay."""
    stored = ports.replays.find(call.names["replay"])
    if stored is None:
        raise NotFound(f"There is no replay '{call.names['replay']}'.")
    return answer(200, shown(stored.job))


def cancel_replay(ports: ManagePorts, call: Call) -> HttpAnswer:
    """End a replay; what it has put by then is delivered."""
    return answer(200, shown(ports.replays.cancel(call.names["replay"], call.by)))


def _to(body: Section, topic: str) -> SubscriptionKey | None:
    """Return the subscription that gets all events, if one is given; a topic may be left out."""
    if not body.has("to"):
        return None
    to = body.section("to")
    name, of_topic = to.required_text("subscription") or "", to.text("topic") or topic
    if not of_topic:
        to.refuse("topic", f"{to.target('topic')} is missing.")
    return SubscriptionKey(of_topic, name)


def _check_exists(ports: ManagePorts, to: SubscriptionKey) -> None:
    if ports.resources.get(Table.EVENT_SUBSCRIPTIONS, *to) is None:
        raise NotFound(f"There is no event subscription '{to.subscription}' of '{to.topic}'.")


def _sources(ports: ManagePorts, call: Call, texts: dict[str, str]) -> list[Source]:
    """
    Return where to look: a given container, or the destinations of all wanted subscriptions.

    Raises:
        NotFound: there are none.
        InvalidDocument: there are too many.
    """
    topic, name = texts["topic"], texts["subscription"]
    if texts["container"]:
        return [Source(topic, name, texts["container"], texts["account"], "")]
    found = [
        Source(
            each.topic,
            each.name,
            each.dead_letter.container,
            each.dead_letter.account,
            dead_letter_folder(each.topic, each.name),
        )
        for each in _subscriptions(ports, call, topic, name)
        if each.dead_letter
    ]
    if not found:
        raise NotFound("No such event subscription has a dead-letter destination.")
    if len(found) > MAX_SOURCES:
        message = f"There are more than {MAX_SOURCES} event subscriptions; name a topic."
        raise InvalidDocument(message, target="topic")
    return found


def _subscriptions(
    ports: ManagePorts, call: Call, topic: str, name: str
) -> Iterator[EventSubscription]:
    """Yield the readable subscriptions of a topic and of a name, if these are given."""
    if topic:
        rows = ports.resources.list(Table.EVENT_SUBSCRIPTIONS, topic)
    else:
        rows = ports.resources.list_all(Table.EVENT_SUBSCRIPTIONS)
    for row in rows:
        with suppress(*UNREADABLE):
            found = to_subscription_in_force(row.document)
            is_named = not name or found.name.casefold() == name.casefold()
            if is_named and call.covers(found.topic_id):
                yield found
