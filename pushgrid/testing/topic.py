"""Topics and event subscriptions as a test uses them."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from datetime import timedelta
from typing import Any
from urllib.parse import quote

from pushgrid.testing.driven_app import DrivenApp, Refused
from pushgrid.testing.subscriber import Answer, Attempt, Handler, SubscriberWebhook, checked
from shared.arm.document_names import NAMESPACE_SUBSCRIPTION, SUBSCRIPTION
from shared.arm.member_names import Names, Shape, in_documented_case, unknown_names
from shared.clock import timestamp
from shared.deadletter.paths import dead_letter_folder
from shared.delivery.delivery_profile import DeliveryProfile, Feature
from shared.delivery.profiles import PROFILES
from shared.events.eventgrid_schema import add_missing
from shared.events.notices import APIS, WrittenBlob
from shared.events.topic import InputSchema, SourceTopic, TopicName
from shared.nearest import nearest
from shared.subscriptions.destination import StorageQueue

_NAMESPACE_API = "api-version=2024-06-01"
# The members that hold another one when it is given with a managed identity.
_WITH_IDENTITY = {
    "destination": ("deliveryWithResourceIdentity",),
    "deadLetterDestination": (
        "deadLetterWithResourceIdentity",
        "deadLetterDestinationWithResourceIdentity",  # of a namespace topic
    ),
}
# A namespace's event subscription has tags, a secret a value, and a filter one as values: answers
# have none of them.
_NEVER_ANSWERED = frozenset({"endpointUrl", "tags", "value", "values"})


class _Source:
    """What can be subscribed to; the app knows it by *data_plane_name*."""

    _is_of_namespace = False

    def __init__(
        self, app: DrivenApp, name: str, path: str, profile: DeliveryProfile, data_plane_name: str
    ) -> None:
        self._app = app
        self._profile = profile
        self._data_plane_name = data_plane_name
        self.name = name
        self.path = path

    def subscribe(
        self,
        name: str,
        *,
        answers: Sequence[Answer] | None = None,
        handler: Handler | None = None,
        answers_handshake: bool = False,
        **properties: Any,
    ) -> Subscriber:
        """
        Create an event subscription, and the endpoint that receives its events.

        The endpoint answers by *handler*, or else by *answers* in turn, the last of them for ever.
        It completes the validation handshake by itself, unless its handler *answers_handshake*.
        *properties* are those of the ARM document. The URL may be left out, and dead letters go to
        a container of the subscriber's own; ``deadLetterDestination=None`` has them dropped. A
        destination may be a storage queue: then the endpoint answers as its storage.

        Raises:
            Refused: the document is not valid, or the endpoint did not consent.
            TypeError: an event subscription has no such property, *answers* are no sequence of
                answers, or *handler* is no function that can be called.
            ValueError: *answers* are none.
        """
        properties = self._checked(properties)
        subscriber = Subscriber(self._app, self, name)
        endpoint = SubscriberWebhook(answers, handler, is_asked_to_consent=answers_handshake)
        subscriber._endpoint = endpoint  # noqa: SLF001 - the same
        document = self._with_destinations(name, properties)
        push = self._push_section(document)
        destination = _holder(push, "destination")["destination"]
        self._app.endpoints.connect(_address(destination["properties"]), endpoint)
        dead_letter = _holder(push, "deadLetterDestination").get("deadLetterDestination")
        dead_letter = dead_letter or {"properties": {}}
        subscriber.container = dead_letter["properties"].get("blobContainerName")
        kept = self._app.arm("PUT", subscriber.path, {"properties": document})["properties"]
        refuse_unknown_members("an event subscription", properties, kept)
        return subscriber

    def _with_destinations(self, name: str, given: Mapping[str, Any]) -> dict[str, Any]:
        properties = deepcopy(dict(given))
        push = self._push_section(properties)
        destination = _holder(push, "destination").setdefault("destination", {})
        destination.setdefault("endpointType", "WebHook")
        target = destination.setdefault("properties", {})
        if str(destination["endpointType"]).lower() != "storagequeue":
            url = f"https://{name}.{self._data_plane_name}.example/".lower()
            target.setdefault("endpointUrl", url)
        if Feature.DEAD_LETTERS in self._profile.features:
            holder = _holder(push, "deadLetterDestination")
            holder.setdefault("deadLetterDestination", self._app.new_container())
        return properties

    def _checked(self, properties: Mapping[str, Any]) -> dict[str, Any]:
        names = NAMESPACE_SUBSCRIPTION if self._is_of_namespace else SUBSCRIPTION
        return checked_properties("an event subscription", properties, names)

    def _push_section(self, properties: dict[str, Any]) -> dict[str, Any]:
        """Return the part of the properties that has the destinations."""
        if not self._is_of_namespace:
            return properties
        delivery: dict[str, Any] = properties.setdefault("deliveryConfiguration", {})
        delivery.setdefault("deliveryMode", "Push")
        push: dict[str, Any] = delivery.setdefault("push", {})
        return push


class Topic(_Source):
    """
    A custom topic *name*, or a topic of *namespace*.

    *key* is for a publisher's client, *path* is its ARM path.
    """

    def __init__(
        self,
        app: DrivenApp,
        name: str,
        namespace: str | None,
        *,
        input_schema: InputSchema,
        profile: DeliveryProfile,
    ) -> None:
        self._input_schema = input_schema
        self.namespace = namespace
        owner = f"namespaces/{namespace}" if namespace else f"topics/{name}"
        path = f"{owner}/topics/{name}" if namespace else owner
        own_name = TopicName(namespace, name).joined if namespace else name
        super().__init__(app, name, path, profile, own_name)
        self._is_of_namespace = bool(namespace)
        self._owner = owner
        self.key = str(app.arm("POST", f"{owner}/listKeys")["key1"])

    @property
    def endpoint(self) -> str:
        """The URL for a publisher's client; see `Pushgrid.url`."""
        return f"{self._app.url}/{self._owner}{'' if self.namespace else '/api/events'}"

    def publish(self, events: Any) -> None:
        """
        Publish an event, or several in one request, and do what is due now.

        Events are dicts, completed by what their schema requires, or the ``EventGridEvent`` and
        ``CloudEvent`` of Azure's SDK.

        Raises:
            Refused: the deployment does not accept them.
            azure.core.exceptions.HttpResponseError: the same, of an SDK's events.
            AssertionError: the first that a handler raised.
        """
        given = events if isinstance(events, list | tuple) else [events]
        if not all(isinstance(each, Mapping) for each in given):
            self._publish_by_sdk(given)
            return
        completed = [self._completed(each) for each in given]
        is_cloud_events = bool(completed) and "specversion" in completed[0]
        form = "application/cloudevents-batch+json" if is_cloud_events else "application/json"
        target, key = f"/{self.path}/api/events", {"aeg-sas-key": self.key}
        if self.namespace:
            target = f"/{self.path}:publish?{_NAMESPACE_API}"
            key = {"Authorization": f"SharedAccessKey {self.key}"}
        headers = {"Content-Type": form, **key}
        answer = self._app.http("POST", target, headers, json.dumps(completed).encode())
        if answer.status != 200:  # noqa: PLR2004 - accepted
            raise Refused(answer)

    def _publish_by_sdk(self, events: Sequence[Any]) -> None:
        from azure.core.credentials import AzureKeyCredential
        from azure.eventgrid import EventGridPublisherClient

        topic = self.name if self.namespace else None
        credential = AzureKeyCredential(self.key)
        with EventGridPublisherClient(self.endpoint, credential, namespace_topic=topic) as client:
            client.send(list(events))

    def _completed(self, event: Mapping[str, Any]) -> dict[str, Any]:
        """Add the members that the schema requires and that are missing."""
        if self._input_schema is InputSchema.CUSTOM:
            return dict(event)
        new_id, now = self._app.new_id(), timestamp(self._app.now)
        if self._input_schema is InputSchema.CLOUD_EVENTS:
            return {"specversion": "1.0", "id": new_id, "source": "/test", "time": now, **event}
        envelope = {"id": new_id, "subject": "", "eventTime": now, "dataVersion": "", "data": None}
        return add_missing(event, envelope)


class StorageAccount(_Source):
    """The deployment's storage account as a source of events. *path* is its ARM path."""

    def __init__(self, app: DrivenApp, account: str, resource_id: str) -> None:
        path = f"{resource_id}/providers/Microsoft.EventGrid"
        super().__init__(app, account, path, PROFILES["latest"], SourceTopic(account).joined)
        self._changes = 0

    def change(self, container: str, path: str, *, api: str = "PutBlob", **members: Any) -> None:
        """
        Tell who subscribes that a blob was created or deleted, and do what is due now.

        *api* is ``PutBlob``, ``PutBlockList``, ``CopyBlob`` or ``DeleteBlob``. *members* may be
        ``size`` in bytes, ``content_type``, ``etag``, ``url``, ``blob_type`` and ``access_tier``.

        Raises:
            ValueError: there is no such operation.
            AssertionError: the first that a handler raised.
        """
        if api not in APIS:
            raise ValueError(f"api is one of {', '.join(APIS)}")
        given: dict[str, Any] = {
            "url": f"https://{self.name}.blob.core.windows.net/{container}/{quote(path)}",
            "etag": f"0x{self._app.new_id()[:8].upper()}",
            "size": 0,
            "content_type": "application/octet-stream",
        }
        self._changes += 1
        at = self._app.now + self._changes * timedelta(microseconds=1)
        self._app.change_blob(
            WrittenBlob(container=container, path=path, api=api, written_at=at, **given | members)
        )


class Subscriber:
    """
    An event subscription *name* of *topic*, and its endpoint.

    *path* is its ARM path; *container* that of its dead letters, if it has one.
    """

    _endpoint: SubscriberWebhook
    container: str | None

    def __init__(self, app: DrivenApp, source: _Source, name: str) -> None:
        self._app = app
        self._source = source
        self.name = name
        self.path = f"{source.path}/eventSubscriptions/{name}"

    @property
    def topic(self) -> Topic:
        """
        The topic that it subscribes to.

        Raises:
            TypeError: it subscribes to a storage account.
        """
        if not isinstance(self._source, Topic):
            raise TypeError(f"{self.name} subscribes to a storage account")
        return self._source

    @property
    def attempts(self) -> list[Attempt]:
        """The requests that it got, in order."""
        return self._endpoint.attempts

    @property
    def received(self) -> list[Any]:
        """The events that it accepted, in order."""
        successes = self._source._profile.success_codes  # noqa: SLF001 - the same
        accepted = [each for each in self.attempts if each.status in successes]
        return [event for each in accepted for event in each.events]

    @property
    def dead_letters(self) -> list[Any]:
        """The records in its dead-letter blobs, in the order in which they were written."""
        topic = self._source._data_plane_name  # noqa: SLF001 - a class of this module
        folder = f"{dead_letter_folder(topic, self.name)}/"
        blobs = self._app.dead_letters.blobs
        found = [key for key in blobs if key[0] == self.container and key[1].startswith(folder)]
        return [record for key in found for record in json.loads(blobs[key])]

    def answer(self, *answers: Answer) -> None:
        """
        Answer by *answers* from now on, the last of them for ever.

        Raises:
            ValueError: they are none.
        """
        self._endpoint.answers = checked(answers)

    def update(self, **properties: Any) -> None:
        """
        Send a PATCH with these properties of the ARM document.

        Raises:
            Refused: they are not valid.
            TypeError: an event subscription has no such property.
        """
        properties = self._source._checked(properties)  # noqa: SLF001 - the same
        body = {"properties": properties} if self._source._is_of_namespace else properties  # noqa: SLF001 - the same
        kept = self._app.arm("PATCH", self.path, body)["properties"]
        refuse_unknown_members("an event subscription", properties, kept)

    def delete(self) -> None:
        """Delete the event subscription; its waiting events are dropped."""
        self._app.arm("DELETE", self.path)

    def timeline(self) -> Any:
        """Return the answer of ``GET …/attempts``: every failed attempt, and why."""
        return self._app.arm("GET", f"{self.path}/attempts")


def _holder(section: dict[str, Any], member: str) -> dict[str, Any]:
    """Return the section that has *member*: with a managed identity it is one level deeper."""
    return next((section[name] for name in _WITH_IDENTITY[member] if section.get(name)), section)


def _address(target: Mapping[str, Any]) -> str:
    """Return the URL of a webhook, or what stands for it: the ARM id of a queue."""
    if url := target.get("endpointUrl"):
        return str(url)
    return StorageQueue(
        account_id=str(target.get("resourceId")), name=str(target.get("queueName"))
    ).url


def checked_properties(kind: str, given: Mapping[str, Any], names: Names) -> dict[str, Any]:
    """
    Return the properties that a test has given for a document with these *names*, as documented.

    Raises:
        TypeError: there is no such property, or one is there in two spellings.
    """
    shape: Shape = names.below["properties"]
    found: dict[str, Any]
    found, repeated = in_documented_case(dict(given), shape)
    if repeated:
        raise TypeError(f"{kind}: {repeated[0].message}")
    unknown = (
        f"{each.target}{_nearest(each.name, each.known)}" for each in unknown_names(found, shape)
    )
    _refuse(kind, unknown)
    return found


def refuse_unknown_members(kind: str, given: Mapping[str, Any], kept: Mapping[str, Any]) -> None:
    """
    Compare the properties that a test has given with those of the deployment's answer.

    Raises:
        TypeError: the answer lacks one.
    """
    _refuse(kind, _unknown(given, kept, ""))


def _refuse(kind: str, unknown: Iterable[str]) -> None:
    if names := ", ".join(sorted(unknown)):
        raise TypeError(f"{kind} has no property {names}")


def _nearest(name: str, names: Collection[str]) -> str:
    """Return the hint at a property that is spelt like *name*."""
    near = nearest(name.replace("_", ""), names)
    return f" (did you mean {near}?)" if near else ""


def _unknown(given: Any, kept: Any, path: str) -> Iterator[str]:
    if isinstance(given, Mapping) and isinstance(kept, Mapping):
        for name, value in given.items():
            inner = f"{path}.{name}" if path else name
            if name in kept:
                yield from _unknown(value, kept[name], inner)
            elif value is not None and name not in _NEVER_ANSWERED:
                yield f"{inner}{_nearest(name, kept)}"
    elif isinstance(given, list | tuple) and isinstance(kept, list):
        for index, (one, other) in enumerate(zip(given, kept, strict=False)):
            yield from _unknown(one, other, f"{path}[{index}]")
