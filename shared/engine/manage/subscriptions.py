"""Handles requests for event subscriptions, in every form in which clients address them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from shared import telemetry
from shared.arm.arm_json import answer, read_json
from shared.arm.consent import (
    is_awaiting,
    leaves_unchanged,
    with_consent,
    with_provisioning_state,
)
from shared.arm.delivery_attributes_codec import attribute_mappings
from shared.arm.deployment_capabilities import (
    DeploymentCapabilities,
    ParentTopic,
    SubscriptionRequest,
)
from shared.arm.subscription_codec import (
    SubscriptionForm,
    is_readable,
    pending_consent,
    to_signing_end,
    to_subscription,
    to_subscription_in_force,
)
from shared.arm.subscription_warnings import subscription_warnings
from shared.clock import Clock
from shared.engine.manage.call import Call, answer_page, names_of, not_found
from shared.engine.manage.deletion import Deletion
from shared.engine.manage.endpoint_validation import Consents, Handshakes, check_assumption
from shared.engine.manage.kinds import TopicKind
from shared.engine.manage.tracked_resources import Body, answer_what_if
from shared.engine.manage.writing import DocumentKey, write
from shared.engine.ports import Document, Resource, ResourceStore, Table
from shared.errors import UNREADABLE, Conflict, InvalidDocument, UnreadableDocument
from shared.http import HttpAnswer
from shared.nearest import did_you_mean
from shared.races import Backoff
from shared.subscriptions.destination import EndpointType, host_addresses
from shared.subscriptions.diagnosis import PENDING
from shared.subscriptions.subscription import EventSubscription, SubscriptionKey

MAX_SUBSCRIPTIONS = 500  # of a topic
_POLL_SECONDS = "1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscriptions:
    """The event subscriptions of one kind of topic, in one form."""

    topics: TopicKind
    form: SubscriptionForm
    resources: ResourceStore
    deployment: DeploymentCapabilities
    handshakes: Handshakes
    deletion: Deletion
    clock: Clock
    new_key: Callable[[], str]
    new_id: Callable[[], str]
    backoff: Backoff

    def put(self, call: Call) -> HttpAnswer:
        """Create or replace a subscription, once its endpoint is validated."""
        body = read_json(call.body, self.form.names)
        return self._write(call, "put", 201, lambda _: body)

    def patch(self, call: Call) -> HttpAnswer:
        """Change the members that the body names; a concurrent change is merged."""
        patch = read_json(call.body, self.form.patch_names)

        def merged(existing: Resource | None) -> object:
            return self.form.patched(self._readable(call, existing).document, patch)

        return self._write(call, "patch", self.form.patch_status, merged, keeps_url=True)

    def get(self, call: Call) -> HttpAnswer:
        topic = self.topic(call)
        return self._answer(200, self.named(call, topic).document, topic)

    def delete(self, call: Call) -> HttpAnswer:
        """
        Delete a subscription, drop its waiting deliveries, and notify its endpoint.

        Idempotent: 204 if absent.
        """
        topic = self._find_topic(call)
        existing = self._stored(topic, call) if topic else None
        if topic and existing and self.deletion.delete(existing, topic.name):
            _log_change(topic, existing, "delete", call)
        return answer(204)

    def list(self, call: Call) -> HttpAnswer:
        topic = self.topic(call)
        found = self.listed(topic)
        return answer_page(call, found, lambda stored: self.show_listed(stored, topic))

    def full_url(self, call: Call) -> HttpAnswer:
        destination = to_subscription(self._with_secrets(call)).destination
        if destination.kind is not EndpointType.WEBHOOK:
            raise InvalidDocument("Only a webhook has an endpoint URL.")
        return answer(200, {"endpointUrl": destination.url})

    def delivery_attributes(self, call: Call) -> HttpAnswer:
        """Answer the custom headers, secrets in clear text."""
        destination = self._with_secrets(call)["properties"]["destination"]
        return answer(200, {"value": attribute_mappings(destination)})

    def _with_secrets(self, call: Call) -> Document:
        """Return a subscription whose secrets are shown; the log records it."""
        topic, name = self.topic(call), call.names["name"]
        found = self.named(call, topic)
        telemetry.info("secrets.listed", topic=topic.name, subscription=name, by=call.by)
        return found.document

    def what_if(self, call: Call) -> HttpAnswer:
        """Answer what a PUT of the body would change; ask no endpoint, and store nothing."""
        topic = self.topic(call)
        existing = self._stored(topic, call)
        request = self._request(call, topic, read_json(call.body, self.form.names), existing)
        wanted = self.form.parse(request)
        if call.assumes_consent and not call.is_import:
            check_assumption(to_subscription(wanted).destination)
        before: Document | None = {} if existing else None
        is_same = False
        if request.existing:
            before = self._shown(request.existing, topic)
            is_same = leaves_unchanged(
                request.existing, wanted, request.now, assumes_consent=call.assumes_consent
            )
        return answer_what_if(before, self._shown(wanted, topic), is_same=is_same)

    def change(self, call: Call, action: str, changed: Callable[[Document], Document]) -> bool:
        """Store what an action makes of a subscription; return whether that is a change."""
        topic = self.topic(call)
        before: Document = self.named(call, topic).document
        if changed(before) == before:
            return False

        def decide(existing: Resource | None) -> Document:
            nonlocal before
            before = self._readable(call, existing).document
            return changed(before)

        written = write(self.resources, _key(topic, call), decide, self.backoff)
        if written.document == before:
            return False
        _log_change(topic, written, action, call)
        return True

    def show_listed(self, stored: Document, topic: ParentTopic) -> Document:
        """Return a stored subscription as a list shows it: one that can't be read has failed."""
        try:
            return self._shown(stored, topic)
        except UNREADABLE:
            return {**stored, "properties": {"provisioningState": "Failed"}}

    def _write(
        self, call: Call, action: str, status: int, body: Body, *, keeps_url: bool = False
    ) -> HttpAnswer:
        """Store a subscription; one whose endpoint is new takes effect when that is validated."""
        topic = self.topic(call)
        consents = Consents(
            handshakes=self.handshakes,
            link_base=call.public_url if self.form.has_links else None,
            is_assumed=call.assumes_consent,
            is_import=call.is_import,
        )

        before: Document | None = None

        def decide(existing: Resource | None) -> Document:
            nonlocal topic, before
            topic = self.topic(call)
            request = self._request(call, topic, body(existing), existing)
            stored = self.form.parse(replace(request, keeps_url=keeps_url))
            before = request.existing
            return with_consent(stored, consents.obtain(stored, before), before)

        def may_stay(_: Resource) -> bool:
            """Count again: of concurrent creators the last to write sees all others."""
            return self._count(topic) <= MAX_SUBSCRIPTIONS

        key = _key(topic, call)
        written = write(self.resources, key, decide, self.backoff, may_stay)
        self._check_topic(call, written.document)
        _log_change(topic, written, action, call)
        _log_signing_end(topic, written, before)
        return self._answer(status, written.document, topic)

    def _request(
        self, call: Call, topic: ParentTopic, body: object, existing: Resource | None
    ) -> SubscriptionRequest:
        """Return the request that replaces the *existing* subscription with a PUT of *body*."""
        if existing and not topic.has(existing.document.get("id")):
            raise Conflict(
                f"There is already an event subscription of that name: {existing.document['id']}."
            )
        if existing is None and self._count(topic) >= MAX_SUBSCRIPTIONS:
            message = f"A topic can have at most {MAX_SUBSCRIPTIONS} event subscriptions."
            raise InvalidDocument(message, detail_code="QuotaExceeded")
        own = self.deployment.app_addresses | host_addresses(call.asked_url)
        is_damaged = existing is not None and not is_readable(existing.document)
        found = existing.document if existing else None
        return SubscriptionRequest(
            name=call.names["name"],
            body=body,
            topic=topic,
            deployment=replace(self.deployment, app_addresses=own),
            new_id=self.new_id,
            new_key=self.new_key,
            now=self.clock.now(),
            by=call.by,
            existing=None if is_damaged else found,
            damaged=found if is_damaged else None,
        )

    def _answer(self, status: int, stored: Document, topic: ParentTopic) -> HttpAnswer:
        """Answer with a subscription; clients poll soon while validation is pending."""
        shown = answer(status, self._shown(stored, topic))
        if is_awaiting(stored, self.clock.now()):
            return replace(shown, headers={**shown.headers, "Retry-After": _POLL_SECONDS})
        return shown

    def _shown(self, stored: Document, topic: ParentTopic) -> Document:
        now = self.clock.now()
        shown = with_provisioning_state(self.form.render(stored, topic), stored, now)
        if pending := pending_consent(stored, now):
            shown = {**shown, "properties": {**shown["properties"], PENDING: pending.document}}
        warnings = subscription_warnings(stored)
        return {**shown, "warnings": warnings} if warnings else shown

    def _check_topic(self, call: Call, stored: Document) -> None:
        """Delete the subscription again if its topic was deleted during the handshake."""
        topic = self._find_topic(call)
        if topic and topic.input_schema == stored["inputSchema"]:
            return
        self.resources.delete(Table.EVENT_SUBSCRIPTIONS, stored["topicName"], stored["name"])
        if topic is None:
            raise self.topics.not_found(call)
        raise Conflict("The topic was created again with another input schema.")

    def topic(self, call: Call) -> ParentTopic:
        return self.form.parent_of(self.topics.named(call).document, self.deployment)

    def _find_topic(self, call: Call) -> ParentTopic | None:
        found = self.topics.find(call)
        return self.form.parent_of(found.document, self.deployment) if found else None

    def named(self, call: Call, topic: ParentTopic) -> Resource:
        """Return the subscription of the path; `UnreadableDocument`: its row can't be read."""
        return self._readable(call, self._stored(topic, call))

    def listed(self, topic: ParentTopic) -> Sequence[Resource]:
        """Return a topic's subscriptions; of those that can't be read only the names."""
        rows = self.resources.list(Table.EVENT_SUBSCRIPTIONS, topic.name)
        found = [each for each in rows if topic.has(each.document.get("id"))]
        return [each if is_readable(each.document) else _named_only(each, topic) for each in found]

    def in_force(self, call: Call) -> EventSubscription:
        """Return the subscription that *call* names, as deliveries see it; raises as ``named``."""
        return to_subscription_in_force(self.named(call, self.topic(call)).document)

    def consented(self, call: Call) -> EventSubscription:
        """Return the subscription in force; `Conflict`: no endpoint of it has consented."""
        stored = self.named(call, self.topic(call)).document
        found, pending = to_subscription_in_force(stored), pending_consent(stored, self.clock.now())
        if pending and not found.has_consented:
            raise Conflict(f"{pending.why} {pending.remedy}")
        return found

    def _stored(self, topic: ParentTopic, call: Call) -> Resource | None:
        """Return the row of the subscription that a path names, unless it is of another form."""
        found = self.resources.get(*_key(topic, call))
        return found if found and topic.has(found.document.get("id")) else None

    def _count(self, topic: ParentTopic) -> int:
        return len(self.resources.list(Table.EVENT_SUBSCRIPTIONS, topic.name))

    def _readable(self, call: Call, found: Resource | None) -> Resource:
        if found is None:
            name = call.names["name"]
            near = did_you_mean(name, names_of(self.listed(self.topic(call))))
            raise not_found(call, f"{self.topics.arm_id(call)}/eventSubscriptions/{name}", near)
        if not is_readable(found.document):
            raise UnreadableDocument
        return found


def _named_only(row: Resource, topic: ParentTopic) -> Resource:
    return replace(row, document={"id": topic.subscription_id(row.name), "name": row.name})


def _key(topic: ParentTopic, call: Call) -> DocumentKey:
    return DocumentKey(Table.EVENT_SUBSCRIPTIONS, topic.name, call.names["name"])


def log_change(key: SubscriptionKey, generation: object, action: str, call: Call) -> None:
    """Log who has changed a subscription of *generation*."""
    telemetry.info(
        "subscription.changed",
        **key._asdict(),
        generation=str(generation),
        action=action,
        by=call.by,
    )


def _log_change(topic: ParentTopic, row: Resource, action: str, call: Call) -> None:
    key = SubscriptionKey(topic.name, str(row.document.get("name", row.name)))
    log_change(key, row.document.get("generation"), action, call)


def _log_signing_end(topic: ParentTopic, row: Resource, before: Document | None) -> None:
    """Log that an update has left signed deliveries without secrets, if it has."""
    end = to_signing_end(row.document)
    if end and before and end != to_signing_end(before):
        key = SubscriptionKey(topic.name, str(row.document["name"]))
        telemetry.warning("subscription.unsigned", **key._asdict(), by=end.by)
