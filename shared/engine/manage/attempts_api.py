"""Answers what became of a subscription's events: attempts, ends, and what holds them back."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from datetime import timedelta

from shared.arm.arm_json import answer
from shared.clock import timestamp
from shared.delivery.attempt_record import KEPT_FOR
from shared.engine.manage.call import Call, ManagePorts
from shared.engine.manage.page import read_time, read_top
from shared.engine.manage.subscriptions import Subscriptions
from shared.engine.operations import event_timeline, subscription_state
from shared.engine.ports import AttemptChoice, Document, Resource, Table
from shared.errors import NotFound
from shared.http import HttpAnswer

_MAX_TOP = 1000
_RECENT, _A_DAY = timedelta(hours=1), timedelta(days=1)


def attempts_of(form: Subscriptions) -> Callable[[ManagePorts, Call], HttpAnswer]:
    """Return the handler for event subscriptions in one form."""

    def answer_attempts(ports: ManagePorts, call: Call) -> HttpAnswer:
        """Answer the latest events with attempts, oldest first, and the subscription's state."""
        now = ports.clock.now()
        since = read_time(call, "since") or now - KEPT_FOR
        event, top = call.query.get("event"), read_top(call, _MAX_TOP)
        topic, name = form.topics.topic_name(ports, call), call.names["name"]
        days = ports.attempts.read(topic, name, since, AttemptChoice(event_id=event))
        timelines = event_timeline.latest(days, top)
        find = _find if timelines else stored_subscription
        stored = find(ports, form, call)
        state = None
        if stored is not None:
            state = subscription_state.read_state(stored, ports.health, ports.counts, since, now)
        found = {
            "topic": topic,
            "subscription": name,
            "at": timestamp(now),
            "since": timestamp(since),
            "state": state and subscription_state.document(state),
            "value": [
                event_timeline.document(each, with_answers=not call.is_reader) for each in timelines
            ],
        }
        return answer(200, found)

    return answer_attempts


def failures_of(form: Subscriptions) -> Callable[[ManagePorts, Call], HttpAnswer]:
    """Return the handler for event subscriptions in one form."""

    def answer_failures(ports: ManagePorts, call: Call) -> HttpAnswer:
        """Answer the latest failed attempts on events of the last day, the latest first."""
        now = ports.clock.now()
        since = read_time(call, "since") or now - _RECENT
        topic, name = form.topics.topic_name(ports, call), call.names["name"]
        days = ports.attempts.read(topic, name, now - _A_DAY, AttemptChoice(since=since))
        records = (each for day in days for each in day)
        failures = event_timeline.failure_documents(
            records, read_top(call, _MAX_TOP), with_answers=not call.is_reader
        )
        found = {"topic": topic, "subscription": name, "at": timestamp(now), "value": failures}
        return answer(200, found)

    return answer_failures


def _find(ports: ManagePorts, form: Subscriptions, call: Call) -> Document | None:
    key = form.topics.topic_name(ports, call), call.names["name"]
    found = ports.resources.get(Table.EVENT_SUBSCRIPTIONS, *key)
    return found.document if found else None


def stored_subscription(ports: ManagePorts, form: Subscriptions, call: Call) -> Document:
    """
    Return the stored subscription.

    Raises:
        NotFound: it does not exist, or its topic; the message has the nearest name.
    """
    topic, name = form.topics.topic_name(ports, call), call.names["name"]
    if form.topics.find(ports, call) is None:
        known = ports.resources.list(Table.TOPICS, form.topics.partition)
        raise NotFound(f"There is no topic '{topic}'{_nearest(topic, known)}.")
    found = _find(ports, form, call)
    if found is not None:
        return found
    known = ports.resources.list(Table.EVENT_SUBSCRIPTIONS, topic)
    where = f"event subscription '{name}' of topic '{topic}'"
    raise NotFound(f"There is no {where}{_nearest(name, known)}.")


def _nearest(name: str, known: Iterable[Resource]) -> str:
    names = [str(each.document.get("name", each.name)) for each in known]
    by_key = {each.lower(): each for each in names}
    nearest = difflib.get_close_matches(name.lower(), by_key, 1)
    return f"; the nearest is '{by_key[nearest[0]]}'" if nearest else ""
