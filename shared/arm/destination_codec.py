"""Reads and writes ``destination``: a webhook, with its tokens' audience, or a storage queue."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from shared.arm.dead_letter_codec import check_account, check_storage_name
from shared.arm.delivery_attributes_codec import (
    MEMBER,
    is_ours,
    parse_attributes,
    render_attributes,
)
from shared.arm.deployment_capabilities import DeploymentCapabilities, SubscriptionRequest, under
from shared.arm.not_included import DESTINATIONS
from shared.arm.sections import TLS_VERSIONS, Document, Section
from shared.arm.tracked_resource import account_of
from shared.delivery.delivery_profile import DeliveryProfile, Feature
from shared.events.data_plane import MAX_REQUEST_EVENTS
from shared.http import Audience
from shared.subscriptions.destination import (
    KEPT_SECONDS,
    Destination,
    StorageQueue,
    WebHook,
    base_url,
    loop_fault,
    url_fault,
)
from shared.subscriptions.microsoft_services import is_microsoft_service
from shared.subscriptions.subscription import NO_BATCHING, Batching

TENANT, APPLICATION = "azureActiveDirectoryTenantId", "azureActiveDirectoryApplicationIdOrUri"
_GUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_TENANT = re.compile(rf"{_GUID}|[a-z0-9-]{{1,63}}(\.[a-z0-9-]{{1,63}})+", re.IGNORECASE | re.ASCII)
# An id, or a URI in a form that owners of applications can choose. Path segments can't begin with a
# full stop: "/.default" would be read as a scope, and ".." shortens the path.
_LABELS = r"[a-z0-9_-]+(?:\.[a-z0-9_-]+)"
_APPLICATION = re.compile(
    rf"{_GUID}|(?:api://(?P<api>{_LABELS}*)|https://(?P<https>{_LABELS}+))(?::[0-9]{{1,5}})?"
    r"(?:/[a-z0-9_~-][a-z0-9._~-]*)*/?",
    re.IGNORECASE | re.ASCII,
)
_MAX_APPLICATION = 500
ENDPOINT_TYPES = ("WebHook", "StorageQueue")
_NOT_INCLUDED = {
    kind: f"The endpoint type {kind} is not supported. {missing.sentence}"
    for kind, missing in DESTINATIONS.items()
}
MAX_KILOBYTES = 1024
_QUEUE = "StorageQueue"
_KEEP = "queueMessageTimeToLiveInSeconds"
_LONGEST_KEPT = 2**31 - 1  # seconds
# Queues of the app and its host in the app's own account.
_OWN_QUEUE = re.compile(r"deliveries|retries|waiting|deadletters|.*-poison|(azure-)?webjobs-.*")
_OF_WEBHOOKS = (
    "endpointUrl",
    MEMBER,
    "maxEventsPerBatch",
    "preferredBatchSizeInKilobytes",
    TENANT,
    APPLICATION,
    "minimumTlsVersionAllowed",
)
_ONE_EVENT, _KILOBYTES = 1, 64  # the values that mean: no output batching
_EVENTS = 10  # default where only the size of a batch is given (contract §2.4)


def parse_destination(holder: Section, request: SubscriptionRequest) -> dict[str, Any]:
    """
    Read the ``destination`` of *holder*; faults are added to *holder*.

    Secrets that are given as ``Hidden`` are taken from the existing subscription. So is a URL that
    is not given, if it counts or stands beside the unchanged base URL that an answer shows.
    """
    if not holder.has("destination"):
        holder.refuse("destination", "The destination is missing.")
        return {}
    section = holder.section("destination")
    kind = section.required_choice("endpointType", ENDPOINT_TYPES, _NOT_INCLUDED)
    if kind is None:
        return {}
    if kind == _QUEUE:
        return {"endpointType": kind, "properties": _parse_queue(section, request.deployment)}
    webhook, existing = section.section("properties"), request.existing
    known = existing["properties"]["destination"]["properties"] if existing else {}
    if known.get("endpointUrl") and not webhook.has("endpointUrl"):
        url = known["endpointUrl"]
        if request.keeps_url or webhook.members.get("endpointBaseUrl") == base_url(url):
            webhook = webhook._replace(members={**webhook.members, "endpointUrl": url})
    properties = _parse_webhook(webhook, request, known.get(MEMBER, ()))
    return {"endpointType": kind, "properties": properties}


def render_destination(stored: Document) -> dict[str, Any]:
    """Write a destination for an ARM answer, without secrets and without the URL's query."""
    properties = stored["properties"]
    if stored["endpointType"] == _QUEUE:
        return dict(stored)
    shown: dict[str, Any] = {
        "endpointUrl": None,
        "endpointBaseUrl": base_url(properties["endpointUrl"]),
    }
    if mappings := properties.get(MEMBER):
        shown[MEMBER] = render_attributes(mappings)
    return {**stored, "properties": {**properties, **shown}}


def to_destination(stored: Document) -> Destination:
    properties = stored["properties"]
    if stored["endpointType"] != _QUEUE:
        application = properties.get(APPLICATION)
        audience = Audience(properties[TENANT], application) if application else None
        return WebHook(properties["endpointUrl"], audience)
    seconds = properties[_KEEP]
    return StorageQueue(
        account_id=properties["resourceId"],
        name=properties["queueName"],
        keep_seconds=KEPT_SECONDS if seconds is None else seconds,
    )


def to_batching(stored: Document) -> Batching:
    properties = stored["properties"]
    if stored["endpointType"] == _QUEUE:
        return NO_BATCHING
    events, kilobytes = properties["maxEventsPerBatch"], properties["preferredBatchSizeInKilobytes"]
    if events < 1 or kilobytes < 1:
        raise ValueError("a batch has at least one event and one kilobyte")
    return Batching(max_events=events, preferred_kilobytes=kilobytes)


def _parse_queue(section: Section, deployment: DeploymentCapabilities) -> dict[str, Any]:
    queue = section.section("properties")
    for each in filter(queue.has, _OF_WEBHOOKS):
        queue.refuse(each, f"{queue.target(each)} applies to webhooks, not to a storage queue.")
    others = deployment.dead_letter_accounts
    resource_id, name = queue.required_text("resourceId"), queue.required_text("queueName")
    if resource_id is not None:
        known = deployment.known_accounts if deployment.has_queues else others
        check_account(queue, resource_id, deployment.account, known, "Events")
        account = account_of(resource_id)
        if account in set(others) - set(deployment.queue_accounts):
            queue.refuse(
                "resourceId",
                f"PUSHGRID_DEADLETTER_ACCOUNTS does not tell where the queues of '{account}' are: "
                "its blob endpoint has no '.blob.' in its host, or its connection string has "
                "neither AccountName nor QueueEndpoint.",
            )
    if name is not None:
        is_own = resource_id is None or account_of(resource_id) == deployment.account
        if is_own and _OWN_QUEUE.fullmatch(name):
            queue.refuse("queueName", f"The queue '{name}' is reserved for the app.")
        else:
            check_storage_name(queue, "queueName", name, queue.target("queueName"))
    keep = queue.whole(_KEEP)
    if keep is not None and not (type(keep) is int and (keep == -1 or 1 <= keep <= _LONGEST_KEPT)):
        message = "must be a whole number of seconds from 1 on, or -1, for ever"
        queue.refuse(_KEEP, f"{queue.target(_KEEP)} {message}.")
    return {"resourceId": resource_id, "queueName": name, _KEEP: keep}


def _parse_webhook(
    section: Section, request: SubscriptionRequest, known: Sequence[Document]
) -> dict[str, Any]:
    deployment, topic = request.deployment, request.topic
    url = section.text("endpointUrl")
    fault = url_fault(url, allow_http=deployment.allow_http) or loop_fault(
        url or "", deployment.app_addresses
    )
    if fault and (url is not None or not section.has("endpointUrl")):
        section.refuse("endpointUrl", fault)
    audience = parse_audience(section, deployment)
    events, kilobytes = _parse_batching(section, topic.profile)
    stored: dict[str, Any] = {
        "endpointUrl": url,
        "maxEventsPerBatch": events,
        "preferredBatchSizeInKilobytes": kilobytes,
        **audience,
    }
    if mappings := parse_attributes(section, topic.input_schema, known, request.new_key):
        stored[MEMBER] = mappings
        # Ours are no headers: no edition of the rules lacks them.
        has_headers = any(not is_ours(each["name"]) for each in mappings)
        if has_headers and Feature.CUSTOM_HEADERS not in topic.profile.features:
            section.refuse(
                MEMBER, f"Custom delivery headers are not available{under(topic.profile)}."
            )
        if audience and any(str(each["name"]).lower() == "authorization" for each in mappings):
            section.refuse(
                MEMBER,
                "A webhook with an Entra ID token can't also have a custom Authorization header.",
            )
    tls = section.choice("minimumTlsVersionAllowed", TLS_VERSIONS)
    return stored if tls is None else stored | {"minimumTlsVersionAllowed": tls}


def _parse_batching(section: Section, profile: DeliveryProfile) -> tuple[int, int]:
    """
    Read the most events and the preferred size of a batch, in kilobytes; one event: no batching.

    Clients that do not use batching send 1 and 64.
    """
    asked = section.number("maxEventsPerBatch", 1, MAX_REQUEST_EVENTS)
    kilobytes = section.number("preferredBatchSizeInKilobytes", 1, MAX_KILOBYTES) or _KILOBYTES
    events = asked or (_ONE_EVENT if kilobytes == _KILOBYTES else _EVENTS)
    if events != _ONE_EVENT and Feature.OUTPUT_BATCHING not in profile.features:
        member = "maxEventsPerBatch" if asked else "preferredBatchSizeInKilobytes"
        section.refuse(member, f"Output batching is not available{under(profile)}.")
    return events, kilobytes


def parse_audience(webhook: Section, deployment: DeploymentCapabilities) -> dict[str, str]:
    """
    Read the audience of a webhook's tokens; faults are added to *webhook*.

    Source: Event Grid "Secure webhook delivery with Microsoft Entra ID"; the refusals are our own.
    """
    given = [name for name in (TENANT, APPLICATION) if webhook.members.get(name) not in (None, "")]
    if not given:
        return {}
    if not deployment.has_webhook_identity:
        webhook.refuse(
            given[0],
            "This app can't get tokens for webhooks: its settings PUSHGRID_WEBHOOK_CLIENT_ID and "
            "PUSHGRID_WEBHOOK_CLIENT_SECRET or PUSHGRID_WEBHOOK_CERTIFICATE are not set.",
        )
        return {}
    tenant, application = webhook.required_text(TENANT), webhook.required_text(APPLICATION)
    if tenant is None or application is None:
        return {}
    if not _TENANT.fullmatch(tenant):
        webhook.refuse(TENANT, f"{webhook.target(TENANT)} must be a GUID or a domain.")
    if fault := _application_fault(application):
        webhook.refuse(APPLICATION, f"{webhook.target(APPLICATION)} {fault}")
    return {TENANT: tenant, APPLICATION: application}


def _application_fault(application: str) -> str | None:
    parts = _APPLICATION.fullmatch(application)
    if parts is None or len(application) > _MAX_APPLICATION:
        return (
            "must be the id of an application, or its URI, such as api://contoso.example or "
            "https://contoso.example/hook."
        )
    if is_microsoft_service(application, parts["api"] or parts["https"] or ""):
        return "is a Microsoft service; webhooks can't get tokens for it."
    return None
