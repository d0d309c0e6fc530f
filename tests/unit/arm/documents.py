"""ARM documents for tests, valid by default."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from pushgrid.testing.memory import START
from shared.arm.deployment_capabilities import DeploymentCapabilities, SubscriptionRequest
from shared.arm.namespace_codec import parse_namespace
from shared.arm.subscription_codec import SubscriptionForm
from shared.arm.topic_codec import parse_topic
from shared.arm.topic_subscription_codec import NESTED
from shared.arm.tracked_resource import ArmPath
from shared.delivery.delivery_profile import DeliveryProfile
from shared.delivery.profiles import PROFILES
from shared.errors import AppError, Fault, InvalidDocument

ACCOUNT_ID = (
    "/subscriptions/s1/resourceGroups/rg/providers/Microsoft.Storage/storageAccounts/{account}"
)
TOPIC_ID = "/subscriptions/s1/resourceGroups/rg/providers/Microsoft.EventGrid/topics/orders"
MAPPING = {
    "inputSchemaMappingType": "Json",
    "properties": {
        "id": {"sourceField": "key"},
        "eventType": {"sourceField": "kind", "defaultValue": "Shop.Generic"},
        "subject": {"sourceField": "path", "defaultValue": "/none"},
        "dataVersion": {"sourceField": None, "defaultValue": "1.0"},
    },
}
KEYS = {"keys": {"key1": "key1", "key2": "key2"}}
PATH = ArmPath("s1", "rg", "topics", "orders")
LATEST = PROFILES["latest"]
DEPLOYMENT = DeploymentCapabilities(
    account="acct",
    profiles={"2017": PROFILES["2017"], "latest": LATEST},
    default_profile="latest",
    has_client_ip_header=True,
)
HTTP_DEPLOYMENT = replace(DEPLOYMENT, allow_http=True)


def topic(
    body: object = None,
    *,
    path: ArmPath = PATH,
    existing: Mapping[str, Any] | None = None,
    **properties: Any,
) -> dict[str, Any]:
    if body is None:
        body = {"location": "westeurope", "properties": properties}
    return KEYS | parse_topic(path, body, DEPLOYMENT, lambda: "metric-id", existing)


def namespace(body: object, existing: Mapping[str, Any] | None = None) -> dict[str, Any]:
    path = PATH._replace(kind="namespaces", name="shop")
    return KEYS | parse_namespace(path, body, DEPLOYMENT, existing)


def webhook(url: object = "https://crm.example/hook?code=s3cret", **members: Any) -> dict[str, Any]:
    return {"endpointType": "WebHook", "properties": {"endpointUrl": url, **members}}


def dead_letter(account: str = "acct", container: str = "dead") -> dict[str, Any]:
    properties = {"resourceId": ACCOUNT_ID.format(account=account), "blobContainerName": container}
    return {"endpointType": "StorageBlob", "properties": properties}


def subscription(
    body: object = None,
    *,
    name: str = "crm",
    of: Mapping[str, Any] | None = None,
    form: SubscriptionForm = NESTED,
    deployment: DeploymentCapabilities = DEPLOYMENT,
    existing: Mapping[str, Any] | None = None,
    ids: Iterator[str] | None = None,
    **properties: Any,
) -> dict[str, Any]:
    ids = ids or iter(["generation-1"])
    if body is None:
        body = {"properties": {"destination": webhook(), **properties}}
    return form.parse(
        SubscriptionRequest(
            name=name,
            body=body,
            topic=form.parent_of(of or topic(), deployment),
            deployment=deployment,
            new_key=lambda: "x" * 32,
            new_id=lambda: next(ids),
            now=START,
            by="ada",
            existing=existing,
        )
    )


def rendered(stored: Mapping[str, Any], profile: DeliveryProfile = LATEST) -> dict[str, Any]:
    """Return the properties of a subscription as an answer shows them."""
    parent = NESTED.parent_of(topic(), replace(DEPLOYMENT, profiles={"latest": profile}))
    return dict(NESTED.render(stored, parent)["properties"])


def with_member(path: str, value: object) -> dict[str, Any]:
    """Return valid properties in which the member at *path* has this *value*."""
    properties: dict[str, Any] = {"destination": webhook()}
    if path.startswith("deadLetterDestination"):
        properties["deadLetterDestination"] = dead_letter()
    *names, last = path.split(".")
    holder = properties
    for name in names:
        holder = holder.setdefault(name, {})
    holder[last] = value
    return properties


def faults(read: Callable[..., object], *arguments: Any, **named: Any) -> tuple[Fault, ...]:
    """Return the faults for which *read* refuses a document."""
    with pytest.raises(InvalidDocument) as caught:
        read(*arguments, **named)
    assert all(fault.message in caught.value.message for fault in caught.value.faults)
    return caught.value.faults


def targets(read: Callable[..., object], *arguments: Any, **named: Any) -> list[str | None]:
    return [fault.target for fault in faults(read, *arguments, **named)]


def refusal(read: Callable[..., object], *arguments: Any, **named: Any) -> tuple[str | None, str]:
    """Return target and message of the only fault."""
    (fault,) = faults(read, *arguments, **named)
    assert fault.code == "InvalidRequest"
    return fault.target, fault.message


def accepted(parse: Callable[[object], dict[str, Any]], body: object) -> dict[str, Any] | None:
    """Return what is stored of *body*, ``None`` if it is refused, as it may be."""
    try:
        return parse(0 if body is None else body)
    except AppError:
        return None
