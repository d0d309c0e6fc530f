"""Builds ARM documents of event subscriptions from a command's options, and reads them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

_PLAIN, _FROM_EVENT = "Static", "Dynamic"
_TOPIC = re.compile(
    r"/Microsoft\.EventGrid(?:/namespaces/([^/]+))?/(?:topics/([^/]+)|(systemTopics/[^/]+))",
    re.IGNORECASE,
)
_SOURCE = re.compile(
    r"/(?:Microsoft\.Storage/storageAccounts|(Pushgrid/deployments))/([^/]+)", re.IGNORECASE
)
_HEADERS = "deliveryAttributeMappings"
_SIGNATURE = "webhook-signature"
_AT_ONCE, _A_SECOND = "webhook-max-requests", "webhook-max-rate"
# The attributes that are no headers, and the options that make them.
OWN_ATTRIBUTES = {
    _SIGNATURE: "--signing-secret",
    _AT_ONCE: "--max-requests",
    _A_SECOND: "--max-rate",
}
_GENERATED = "Generated"  # keeps them, or has one made
# The members that hold another one when it was given with a managed identity.
_WRAPPERS = {
    "destination": ("deliveryWithResourceIdentity",),
    "deadLetterDestination": (
        "deadLetterWithResourceIdentity",
        "deadLetterDestinationWithResourceIdentity",  # of a namespace topic
    ),
}
REMOVED: Any = object()  # stands for a member that an empty value removes
_MERGED = {"deliveryConfiguration", "push"}  # by a PATCH; it replaces any other member as a whole


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionOptions:
    """
    What the command line says about an event subscription.

    ``None`` and an empty list: not given. An empty text, alone in a list or not, removes.
    """

    endpoint: str | None = None
    event_types: Sequence[str] = ()
    subject_begins_with: str | None = None
    subject_ends_with: str | None = None
    is_case_sensitive: bool | None = None
    filters: Sequence[dict[str, Any]] = ()
    max_attempts: int | None = None
    time_to_live: timedelta | None = None
    dead_letter_container: str | None = None
    account: str | None = None  # ARM id, of the dead-letter container's storage account
    queue: str | None = None
    queue_account: str | None = None  # ARM id of a storage account
    queue_time_to_live: timedelta | None = None
    batch: int | None = None
    batch_kilobytes: int | None = None
    headers: Sequence[tuple[str, str]] = ()  # names and values
    secret_headers: Sequence[tuple[str, str]] = ()
    event_headers: Sequence[tuple[str, str]] = ()  # names, and paths of values in the event
    sign: bool | None = None  # deliveries are signed; ``False`` ends that
    signing_secret: str | None = None  # instead of one that is made
    max_requests: str | None = None  # at once, of all processes together; an empty text ends it
    max_rate: str | None = None  # a second, of all processes together; an empty text ends it
    entra_tenant: str | None = None
    entra_application: str | None = None
    schema: str | None = None
    labels: Sequence[str] = ()
    expires: str | None = None


def subscription_document(topic: str, options: SubscriptionOptions) -> dict[str, Any]:
    """
    Return the document of an event subscription of *topic*.

    Raises:
        ValueError: an option has no form there.
    """
    return _of_namespace(options) if "." in topic else _of_topic(options)


def _of_topic(options: SubscriptionOptions) -> dict[str, Any]:
    minutes = options.time_to_live and options.time_to_live // timedelta(minutes=1)
    properties = {
        "destination": _destination(options),
        "filter": given(
            includedEventTypes=_list(options.event_types),
            subjectBeginsWith=_text(options.subject_begins_with),
            subjectEndsWith=_text(options.subject_ends_with),
            isSubjectCaseSensitive=options.is_case_sensitive,
            advancedFilters=_list(options.filters),
        ),
        "retryPolicy": given(
            maxDeliveryAttempts=options.max_attempts, eventTimeToLiveInMinutes=minutes
        ),
        "deadLetterDestination": _dead_letter(options),
        "labels": _list(options.labels),
    }
    return {"properties": given(**properties, **_shared(options))}


def _of_namespace(options: SubscriptionOptions) -> dict[str, Any]:
    for value, name in (
        (options.subject_begins_with, "--subject-begins-with"),
        (options.subject_ends_with, "--subject-ends-with"),
        (options.is_case_sensitive, "--case-sensitive"),
        (options.labels, "--label"),
    ):
        if value is not None and value != ():
            instead = "; use --filter" if name.startswith("--subject") else ""
            raise ValueError(f"{name}: subscriptions of namespace topics have none{instead}")
    time_to_live = options.time_to_live
    push = given(
        maxDeliveryCount=options.max_attempts,
        eventTimeToLive=time_to_live and f"PT{time_to_live // timedelta(minutes=1)}M",
        destination=_destination(options),
        deadLetterDestination=_dead_letter(options),
    )
    filters = given(includedEventTypes=_list(options.event_types), filters=_list(options.filters))
    delivery = {"deliveryMode": "Push", "push": push} if push else None
    return {
        "properties": given(
            deliveryConfiguration=delivery, filtersConfiguration=filters, **_shared(options)
        )
    }


def _destination(options: SubscriptionOptions) -> dict[str, Any] | None:
    webhook = _webhook(options)
    keep = options.queue_time_to_live
    queue = given(
        resourceId=options.queue_account,
        queueName=options.queue,
        queueMessageTimeToLiveInSeconds=keep and keep // timedelta(seconds=1),
    )
    if queue and _signature(options):
        raise ValueError("--sign: messages in a storage queue have no headers for a signature")
    if queue and _limits(options):
        raise ValueError("--max-requests, --max-rate: a storage queue needs no limit")
    if webhook and queue:
        raise ValueError("give --queue, or --endpoint with its options, but not both")
    if queue:
        return {"endpointType": "StorageQueue", "properties": queue}
    return {"endpointType": "WebHook", "properties": webhook} if webhook else None


def _webhook(options: SubscriptionOptions) -> dict[str, Any]:
    for name, _ in (*options.headers, *options.secret_headers, *options.event_headers):
        if option := OWN_ATTRIBUTES.get(name.lower()):
            raise ValueError(f"{name} is no header: give {option}")
    mappings = [
        *(_mapping(name, _PLAIN, value=value, isSecret=False) for name, value in options.headers),
        *(
            _mapping(name, _PLAIN, value=value, isSecret=True)
            for name, value in options.secret_headers
        ),
        *(_mapping(name, _FROM_EVENT, sourceField=path) for name, path in options.event_headers),
        *_signature(options),
        *_limits(options),
    ]
    return given(
        endpointUrl=options.endpoint,
        maxEventsPerBatch=options.batch,
        preferredBatchSizeInKilobytes=options.batch_kilobytes,
        **{_HEADERS: mappings},
        azureActiveDirectoryTenantId=_text(options.entra_tenant),
        azureActiveDirectoryApplicationIdOrUri=_text(options.entra_application),
    )


def _mapping(name: str, kind: str, **properties: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "properties": properties}


def _signature(options: SubscriptionOptions) -> list[dict[str, Any]]:
    """Return the mapping that has deliveries signed; an empty value ends that."""
    if options.sign is False and options.signing_secret:
        raise ValueError("--no-sign, --signing-secret: only one of them can be given")
    if options.sign is None and options.signing_secret is None:
        return []
    value = _GENERATED if options.signing_secret is None else options.signing_secret
    value = "" if options.sign is False else value
    return [_mapping(_SIGNATURE, _PLAIN, value=value, isSecret=True)]


def _limits(options: SubscriptionOptions) -> list[dict[str, Any]]:
    """Return the mappings that limit requests; an empty value ends a limit."""
    return [
        _mapping(name, _PLAIN, value=value, isSecret=False)
        for name, value in ((_AT_ONCE, options.max_requests), (_A_SECOND, options.max_rate))
        if value is not None
    ]


def _dead_letter(options: SubscriptionOptions) -> dict[str, Any] | None:
    if options.dead_letter_container == "":
        removed: dict[str, Any] = REMOVED
        return removed
    properties = given(resourceId=options.account, blobContainerName=options.dead_letter_container)
    return {"endpointType": "StorageBlob", "properties": properties} if properties else None


def _shared(options: SubscriptionOptions) -> dict[str, Any]:
    return {"eventDeliverySchema": options.schema, "expirationTimeUtc": _text(options.expires)}


def _text(value: str | None) -> Any:
    return REMOVED if value == "" else value


def _list(values: Sequence[Any]) -> Any:
    return REMOVED if values and not any(values) else [each for each in values if each]


def given(**members: Any) -> dict[str, Any]:
    """Leave out what is empty or not given; 0 and ``False`` are given."""
    return {name: value for name, value in members.items() if value or isinstance(value, int)}


def changes(wanted: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    """
    Return the members with which a PATCH changes what *wanted* says, and nothing else.

    *known* is what the deployment answers. Secrets that it hides stay as they are. Headers are
    replaced by name, and removed by an empty value; any other list is replaced as a whole.
    """
    found: dict[str, Any] = {}
    for name, value in wanted.items():
        if value is REMOVED:
            found[_wrapper(known, name) or name] = None
        elif wrapper := _wrapper(known, name):
            found[wrapper] = _completed({name: value}, known[wrapper])
        elif name in _MERGED:
            found[name] = changes(value, known[name])
        else:
            found[name] = _changed(name, value, known)
    return found


def _completed(wanted: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    if wanted.get("endpointType", "") != known.get("endpointType", ""):
        return {name: _changed(name, value, {}) for name, value in wanted.items()}
    kept = {
        name: value
        for name, value in known.items()
        if value is not None and name != "endpointBaseUrl"
    }
    return kept | {name: _changed(name, value, known) for name, value in wanted.items()}


def _changed(name: str, value: Any, known: Mapping[str, Any]) -> Any:
    if value is REMOVED:
        return None
    if isinstance(value, dict):
        return _completed(value, known.get(name) or {})
    if name == _HEADERS:
        by_name = {each["name"].casefold(): each for each in [*(known.get(name) or ()), *value]}
        return [each for each in by_name.values() if each["properties"].get("value") != ""]
    return value


def _wrapper(members: Mapping[str, Any], name: str) -> str | None:
    return next((each for each in _WRAPPERS.get(name, ()) if members.get(each)), None)


def source_of(arm_id: str) -> tuple[str, str] | None:
    """Return the source in an ARM id: ``storageAccounts`` or ``deployments``, and its name."""
    if found := _SOURCE.search(arm_id):
        return "deployments" if found[1] else "storageAccounts", found[2]
    return None


def topic_of(arm_id: str) -> str:
    """Return the topic in an ARM id; if there is none, the text as it is."""
    if source := source_of(arm_id):
        return f"system-{source[1]}"
    found = _TOPIC.search(arm_id)
    return ".".join(filter(None, found.groups())) if found else arm_id


def secrets_of(headers: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the secrets among delivery attributes, as they are shown; ``None``: no signature."""
    found = (each["properties"] for each in headers if each["name"].casefold() == _SIGNATURE)
    return next((each["value"] for each in found), None)


def gets_secret(before: Mapping[str, Any] | None, wanted: Mapping[str, Any]) -> bool:
    """Tell whether a document has a secret made that the one *before* does not have."""

    def shown(document: Mapping[str, Any]) -> str | None:
        try:
            properties = destination_of(document["properties"])["properties"]
            return secrets_of(properties.get(_HEADERS) or ())
        except (LookupError, TypeError, AttributeError):  # a file can have any form
            return None

    return shown(wanted) == _GENERATED and not (before and shown(before))


def destination_of(properties: Mapping[str, Any], name: str = "destination") -> Mapping[str, Any]:
    """Return where events go, or ``deadLetterDestination``; empty if there is none."""
    delivery = (properties.get("deliveryConfiguration") or {}).get("push") or properties
    wrapper = _wrapper(delivery, name)
    return (delivery[wrapper] if wrapper else delivery).get(name) or {}
