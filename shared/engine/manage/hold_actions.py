"""Pauses and resumes event subscriptions, and releases their endpoints' holds, for operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from shared import telemetry
from shared.arm.arm_json import answer
from shared.arm.pause_codec import to_pause, with_pause, without_pause
from shared.arm.subscription_codec import to_subscription_in_force
from shared.clock import in_words, timestamp
from shared.delivery.furthest import Bounds
from shared.delivery.health.endpoint_health import (
    Hold,
    HoldReason,
    bounded_health,
    endpoint_id,
    release,
)
from shared.engine.delivering.shared_health import HoldRecords
from shared.engine.manage.call import Call, ManagePorts
from shared.engine.manage.subscriptions import Subscriptions
from shared.engine.operations import subscription_state
from shared.engine.operations.holds import held_subscriptions
from shared.engine.ports import Document
from shared.errors import Conflict
from shared.http import HttpAnswer
from shared.races import tries
from shared.subscriptions.subscription import EventSubscription, Pause

Action = Callable[[ManagePorts, Call], HttpAnswer]


@dataclass(frozen=True, slots=True)
class _HoldActions:
    """The actions on subscriptions in one form. Each can be repeated, which changes nothing."""

    form: Subscriptions

    def pause(self, ports: ManagePorts, call: Call) -> HttpAnswer:
        """Hold a subscription by hand: its events wait until it is resumed."""
        pause = Pause(ports.clock.now(), call.by)
        is_new = self.form.change(ports, call, "pause", lambda stored: with_pause(stored, pause))
        subscription = self._subscription(ports, call)
        if is_new:
            records = HoldRecords(ports.metrics, subscription.key)
            records.began(HoldReason.PAUSE, "paused", by=call.by)
        terms = ports.terms.of(subscription)
        end = "dead-lettered" if terms.dead_letter else "dropped"
        said = "Paused" if is_new else "Already paused"
        return _answer(
            ports,
            subscription,
            f"{said}: its events are stored and wait. Their time to live goes on: an event is "
            f"{end} {in_words(terms.scaled(terms.time_to_live))} after it was published.",
            is_changed=is_new,
        )

    def resume(self, ports: ManagePorts, call: Call) -> HttpAnswer:
        """End a pause: new events are delivered at once, and those that waited come paced."""
        pause: Pause | None = None

        def resumed(stored: Document) -> Document:
            nonlocal pause
            pause = to_pause(stored)
            return without_pause(stored)

        is_new = self.form.change(ports, call, "resume", resumed)
        subscription = self._subscription(ports, call)
        said = "It was not paused."
        if is_new and pause:
            lasted = ports.clock.now() - pause.since
            records = HoldRecords(ports.metrics, subscription.key)
            records.ended(HoldReason.PAUSE, "resumed", lasted=lasted, by=call.by)
            said = "Resumed: events that waited are delivered one after the other, within minutes."
        return _answer(ports, subscription, said, is_changed=is_new)

    def release(self, ports: ManagePorts, call: Call) -> HttpAnswer:
        """End the automatic hold of an endpoint now."""
        subscription = self._subscription(ports, call)
        hold = _release(ports, subscription)
        said = "Its endpoint was not held."
        if hold:
            lasted = ports.clock.now() - hold.began
            telemetry.info(
                "subscription.changed", **subscription.key._asdict(), action="release", by=call.by
            )
            records = HoldRecords(ports.metrics, subscription.key)
            records.ended(hold.reason, "released", lasted=lasted, by=call.by)
            said = (
                "Released: what the hold has kept comes within 5 minutes. Events that have failed "
                "keep the times of their next attempts."
            )
        if subscription.pause:
            said += " It is paused, which only 'resume' ends."
        return _answer(ports, subscription, said, is_changed=hold is not None)

    def _subscription(self, ports: ManagePorts, call: Call) -> EventSubscription:
        found = self.form.named(ports, call, self.form.topic(ports, call))
        return to_subscription_in_force(found.document)


def hold_actions(form: Subscriptions) -> Mapping[str, Action]:
    """Return the actions on event subscriptions in one form, by the last segment of their path."""
    actions = _HoldActions(form)
    return {"pause": actions.pause, "resume": actions.resume, "release": actions.release}


def list_holds(ports: ManagePorts, call: Call) -> HttpAnswer:
    """Answer the subscriptions of a resource group that are paused, or whose endpoint is held."""
    found = held_subscriptions(ports.resources, ports.clock.now())
    value = [
        {
            "topic": subscription.topic,
            "subscription": subscription.name,
            **subscription_state.holds_document(subscription.pause, availability),
        }
        for subscription, availability, _ in found
        if call.covers(subscription.topic_id)
    ]
    return answer(200, {"value": value})


def _release(ports: ManagePorts, subscription: EventSubscription) -> Hold | None:
    """
    End the hold in the row that all processes share; return it, if there was one.

    Raises:
        Conflict: every try lost its race for the row.
        StorageUnavailable: it may or may not be released.
    """
    endpoint = endpoint_id(subscription)
    for _ in tries(ports.backoff):
        row = ports.health.read(subscription.key)
        if row is None or row.health.hold is None or row.health.endpoint != endpoint:
            return None
        with suppress(Conflict):
            now = ports.clock.now()
            health = bounded_health(row.health, Bounds(now))
            ports.health.write(subscription.key, release(health, now), row.etag)
            return health.hold
    raise Conflict


def _answer(
    ports: ManagePorts, subscription: EventSubscription, message: str, *, is_changed: bool
) -> HttpAnswer:
    now = ports.clock.now()
    availability = subscription_state.read_availability(subscription, ports.health, now)
    document = {
        "topic": subscription.topic,
        "subscription": subscription.name,
        "at": timestamp(now),
        "changed": is_changed,
        "message": message,
        **subscription_state.holds_document(subscription.pause, availability),
    }
    return answer(200, document)
