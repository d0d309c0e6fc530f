"""Pauses and resumes event subscriptions, and releases their endpoints' holds, for operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from shared import telemetry
from shared.arm.arm_json import answer
from shared.arm.pause_codec import with_pause, without_pause
from shared.arm.subscription_codec import to_subscription_in_force
from shared.clock import in_words, timestamp
from shared.delivery.health.endpoint_health import endpoint_id, release
from shared.engine.manage.call import Call, ManagePorts
from shared.engine.manage.subscriptions import Subscriptions
from shared.engine.manage.writing import TRIES
from shared.engine.operations import subscription_state
from shared.errors import Conflict
from shared.http import HttpAnswer
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
        used = self._subscription(ports, call)
        terms = ports.terms.of(used)
        end = "dead-lettered" if terms.dead_letter else "dropped"
        said = "Paused" if is_new else "It was paused before"
        return _answer(
            ports,
            used,
            f"{said}: its events are stored and wait. Their time to live goes on: an event is "
            f"{end} {in_words(terms.scaled(terms.time_to_live))} after it was published.",
            is_changed=is_new,
        )

    def resume(self, ports: ManagePorts, call: Call) -> HttpAnswer:
        """End a pause: new events are delivered at once, and those that waited come paced."""
        is_new = self.form.change(ports, call, "resume", without_pause)
        said = "It was not paused."
        if is_new:
            said = "Resumed: events that waited are delivered one after the other, within minutes."
        return _answer(ports, self._subscription(ports, call), said, is_changed=is_new)

    def release(self, ports: ManagePorts, call: Call) -> HttpAnswer:
        """End the automatic hold of an endpoint now."""
        used = self._subscription(ports, call)
        is_new = _release(ports, used)
        said = "Its endpoint was not held."
        if is_new:
            telemetry.info(
                "subscription.changed", **used.key._asdict(), action="release", by=call.by
            )
            said = "Released: events that waited are delivered one after the other, within minutes."
        if used.pause:
            said += " It is paused, which only 'resume' ends."
        return _answer(ports, used, said, is_changed=is_new)

    def _subscription(self, ports: ManagePorts, call: Call) -> EventSubscription:
        found = self.form.named(ports, call, self.form.topic(ports, call))
        return to_subscription_in_force(found.document)


def hold_actions(form: Subscriptions) -> Mapping[str, Action]:
    """Return the actions on event subscriptions in one form, by the last segment of their path."""
    actions = _HoldActions(form)
    return {"pause": actions.pause, "resume": actions.resume, "release": actions.release}


def _release(ports: ManagePorts, used: EventSubscription) -> bool:
    """
    End the hold in the row that all processes share; return whether there was one.

    Raises:
        Conflict: every try lost its race for the row.
        StorageUnavailable: it may or may not be released.
    """
    for lost in range(TRIES):
        if lost:
            ports.backoff(lost)
        row = ports.health.read(used.key)
        if row is None or row.health.hold is None or row.health.endpoint != endpoint_id(used):
            return False
        try:
            ports.health.write(used.key, release(row.health, ports.clock.now()), row.etag)
        except Conflict:
            continue
        return True
    raise Conflict


def _answer(
    ports: ManagePorts, used: EventSubscription, message: str, *, is_changed: bool
) -> HttpAnswer:
    now = ports.clock.now()
    document = {
        "topic": used.topic,
        "subscription": used.name,
        "at": timestamp(now),
        "changed": is_changed,
        "message": message,
        **subscription_state.holds_document(
            used.pause, subscription_state.read_availability(used, ports.health, now)
        ),
    }
    return answer(200, document)
