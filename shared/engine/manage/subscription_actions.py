"""Acts on an event subscription for an operator: pause, resume, release, and rotate its secret."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta

from shared.arm.arm_json import answer, read_json
from shared.arm.delivery_attributes_codec import parse_rotation, with_new_secret
from shared.arm.document_names import ROTATE_SECRET
from shared.arm.subscription_codec import to_pause, with_pause, without_pause
from shared.clock import in_words, timestamp
from shared.delivery.furthest import LONGEST_IN_LINE, LONGEST_REQUEUE
from shared.delivery.health.endpoint_health import (
    Hold,
    HoldReason,
    endpoint_id,
    release,
)
from shared.engine.caching.health_table import TableHealth
from shared.engine.keeping.deployment_terms import DeploymentTerms
from shared.engine.keeping.holds import hold_began, hold_ended
from shared.engine.manage.call import Call
from shared.engine.manage.subscriptions import Subscriptions, log_change
from shared.engine.operations import subscription_state
from shared.engine.ports import Document, Metrics
from shared.errors import Conflict
from shared.http import HttpAnswer
from shared.races import tries
from shared.subscriptions.signing import to_secret
from shared.subscriptions.subscription import EventSubscription, Pause


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionActions:
    """Begins and ends holds, and rotates secrets; to pause what is paused changes nothing."""

    subscriptions: Subscriptions
    health: TableHealth
    metrics: Metrics
    terms: DeploymentTerms
    known_for: timedelta  # for which processes go, at most, by a subscription as they have read it

    def pause(self, call: Call) -> HttpAnswer:
        """Pause a subscription: its events wait until it is resumed."""
        pause = Pause(self.subscriptions.clock.now(), call.by)
        is_new = self.subscriptions.change(call, "pause", lambda stored: with_pause(stored, pause))
        subscription = self.subscriptions.in_force(call)
        if is_new:
            hold_began(self.metrics, subscription.key, HoldReason.PAUSE, "paused", by=call.by)
        terms = self.terms.of(subscription)
        end = "dead-lettered" if terms.dead_letter else "dropped"
        state = "Paused" if is_new else "Already paused"
        return self._answer(
            subscription,
            f"{state}: its events are stored and wait. Their time to live goes on: an event is "
            f"{end} {in_words(terms.scaled(terms.time_to_live))} after it was published.",
            is_changed=is_new,
        )

    def resume(self, call: Call) -> HttpAnswer:
        """End a pause: new events are delivered at once, and those that waited come paced."""
        pause: Pause | None = None

        def resumed(stored: Document) -> Document:
            nonlocal pause
            pause = to_pause(stored)
            return without_pause(stored)

        is_new = self.subscriptions.change(call, "resume", resumed)
        subscription = self.subscriptions.in_force(call)
        message = "It was not paused."
        if is_new and pause:
            lasted = self.subscriptions.clock.now() - pause.since
            key, why = subscription.key, "resumed"
            hold_ended(self.metrics, key, HoldReason.PAUSE, why, lasted=lasted, by=call.by)
            message = (
                "Resumed: events that waited are delivered one after the other, within minutes."
            )
        return self._answer(subscription, message, is_changed=is_new)

    def release(self, call: Call) -> HttpAnswer:
        """End the automatic hold of an endpoint now."""
        subscription = self.subscriptions.in_force(call)
        hold = self._release(subscription)
        message = "Its endpoint was not held."
        if hold:
            lasted = self.subscriptions.clock.now() - hold.began_at
            log_change(subscription.key, subscription.generation, "release", call)
            key, why = subscription.key, "released"
            hold_ended(self.metrics, key, hold.reason, why, lasted=lasted, by=call.by)
            message = (
                f"Released: held events are sent within {in_words(LONGEST_REQUEUE)}. "
                "Events that have failed keep the times of their next attempts."
            )
        if subscription.pause:
            message += " It is paused, which only 'resume' ends."
        return self._answer(subscription, message, is_changed=hold is not None)

    def rotate_secret(self, call: Call) -> HttpAnswer:
        """
        Sign with a new secret, and with the one before it until the next rotation.

        The body may have the ``secret``. The answer is the only one that shows it.
        """
        given = parse_rotation(read_json(call.body or b"{}", ROTATE_SECRET))
        secret = given or to_secret(self.subscriptions.new_key())
        self.subscriptions.change(
            call, "rotateSecret", lambda stored: with_new_secret(stored, secret)
        )
        message = (
            f"Within {in_words(self._effective_in(call))} every delivery is signed with this "
            "secret and with the one before it: let the receiver use this one from then on. "
            "Any older one has ended."
        )
        return answer(200, {"secret": secret, "message": message})

    def _effective_in(self, call: Call) -> timedelta:
        """Return after what time no request arrives that was made before a change."""
        profile = self.terms.of(self.subscriptions.in_force(call)).profile
        return self.known_for + LONGEST_IN_LINE + profile.acknowledgement_timeout

    def _release(self, subscription: EventSubscription) -> Hold | None:
        """End the hold in the row that all processes share; return it, if there was one."""
        endpoint = endpoint_id(subscription)
        for _ in tries(self.subscriptions.backoff):
            row = self.health.read(subscription.key)
            if row is None or row.health.hold is None or row.health.endpoint != endpoint:
                return None
            with suppress(Conflict):
                now = self.subscriptions.clock.now()
                self.health.write(subscription.key, release(row.health, now), row.etag)
                return row.health.hold
        raise Conflict

    def _answer(
        self, subscription: EventSubscription, message: str, *, is_changed: bool
    ) -> HttpAnswer:
        now = self.subscriptions.clock.now()
        availability = subscription_state.read_availability(subscription, self.health, now)
        document = {
            "topic": subscription.topic,
            "subscription": subscription.name,
            "at": timestamp(now),
            "changed": is_changed,
            "message": message,
            **subscription_state.holds_document(subscription.pause, availability),
        }
        return answer(200, document)
