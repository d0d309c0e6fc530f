"""What Event Grid has and Pushgrid has not is refused by name, with what to use instead."""

from __future__ import annotations

import shlex
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from shared.arm.not_included import (
    CUSTOM_DOMAINS,
    DESTINATIONS,
    MQTT,
    PRIVATE,
    PULL,
    RESOURCES,
    TOPIC_TYPES,
    ExcludedFeature,
)
from tests.functional.manage.arm_api import CRM, GROUP, ORDERS, SHOP, SHOP_CRM, ArmApi, hook

README = (Path(__file__).parents[3] / "README.md").read_text("utf-8")
INSIGHTS = "providers/Microsoft.Insights"


def test_the_readme_has_the_same_list() -> None:
    kinds = (*RESOURCES.values(), *DESTINATIONS.values(), TOPIC_TYPES, PULL, CUSTOM_DOMAINS)
    rows = "".join(f"| {each.name} | {each.instead} |\n" for each in dict.fromkeys(kinds))

    assert f"| | instead |\n|---|---|\n{rows}\n" in README


def test_the_advice_for_a_function_can_be_copied_into_a_shell() -> None:
    words = shlex.split(DESTINATIONS["AzureFunction"].instead.replace("function's", ""))

    assert parse_qs(urlsplit(words[-1]).query) == {"functionName": ["NAME"], "code": ["KEY"]}


@pytest.mark.parametrize(
    ("path", "feature"),
    [
        (f"{GROUP}/domains/d", "Domains"),
        (f"{GROUP}/domains/d/topics/t/eventSubscriptions/s", "Domains"),
        (f"{GROUP}/partnerTopics/p", "Partner topics"),
        (f"{GROUP}/partnerNamespaces/p/channels/c", "Partner topics"),
        (f"{ORDERS}/privateEndpointConnections/p", "Private endpoints of topics"),
        (f"{ORDERS}/privateLinkResources", "Private endpoints of topics"),
        (f"{SHOP}/topicSpaces/t", "MQTT clients and topic spaces"),
        (f"{ORDERS}/{INSIGHTS}/diagnosticSettings/d", "Diagnostic settings"),
        (f"{GROUP}/extensionTopics/default", "Extension topics"),
    ],
)
def test_a_path_names_its_feature(orders: ArmApi, path: str, feature: str) -> None:
    message = orders.error("PUT", path, {"properties": {}}, status=404)["message"]

    assert message.startswith(f"{feature} are not included here. Instead, ")


@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize(
    ("scope", "feature"),
    [
        ("/subscriptions/s1", None),
        ("/subscriptions/s1/resourceGroups/rg", None),
        (f"{GROUP}/domains/d/topics/t", RESOURCES["domains"]),
        ("/subscriptions/s1/resourceGroups/rg/providers/Microsoft.KeyVault/vaults/v", TOPIC_TYPES),
        ("/subscriptions/s1/resourceGroups/rg/providers/Microsoft.Web/sites/s", TOPIC_TYPES),
    ],
)
def test_other_scopes_are_refused_by_name(
    orders: ArmApi, method: str, scope: str, feature: ExcludedFeature | None
) -> None:
    path = f"{scope}/providers/Microsoft.EventGrid/eventSubscriptions/s"

    error = orders.error(method, path, hook(), status=400)

    assert error["code"] == "InvalidRequest"
    assert f"There are no event subscriptions of '{scope}' here" in error["message"]
    assert feature is None or feature.sentence in error["message"]
    assert orders.pusher.sent == []


def test_the_extension_of_a_system_topic_names_the_path_of_its_subscriptions(
    orders: ArmApi,
) -> None:
    path = f"{GROUP}/SystemTopics/blobs/providers/Microsoft.EventGrid/eventSubscriptions/s"

    message = orders.error("PUT", path, {}, status=400)["message"]

    assert f"their path is {GROUP}/SystemTopics/blobs/eventSubscriptions/NAME." in message


@pytest.mark.parametrize(
    ("path", "provider"),
    [
        (f"{ORDERS}/{INSIGHTS}/other", "Microsoft.Insights"),
        (f"{ORDERS}/providers/Microsoft.Authorization/roleAssignments", "Microsoft.Authorization"),
        ("/subscriptions/s1/providers/Microsoft.Storage/topics", "Microsoft.Storage"),
        *(
            (path, "Microsoft.EventGrid")
            for path in (
                *(f"{GROUP}/other", "/other", "/subscriptions/s1/providers", f"{CRM}/getNothing"),
                *(f"{ORDERS}/nothing", f"{GROUP}/topics%2Forders", f"{GROUP}/topics//orders"),
                "/subscriptions//providers/Microsoft.EventGrid/topics",
            )
        ),
    ],
)
def test_a_path_that_nothing_has_names_its_provider(
    orders: ArmApi, path: str, provider: str
) -> None:
    message = orders.error("GET", path, status=404)["message"]

    assert message == f"No resource type of {provider} served here has this path."


@pytest.mark.parametrize(
    ("path", "properties", "feature"),
    [
        (ORDERS, {"publicNetworkAccess": "Disabled"}, PRIVATE),
        (SHOP, {"publicNetworkAccess": "Disabled"}, PRIVATE),
        (SHOP, {"topicSpacesConfiguration": {"state": "Enabled"}}, MQTT),
        (SHOP, {"topicsConfiguration": {"customDomains": [{}]}}, CUSTOM_DOMAINS),
        (f"{GROUP}/systemTopics/vault", {"source": "/v", "topicType": "A.B"}, TOPIC_TYPES),
        (SHOP_CRM, {"deliveryConfiguration": {"deliveryMode": "Queue"}}, PULL),
    ],
)
def test_a_member_names_its_feature(
    shop_orders: ArmApi, path: str, properties: dict[str, object], feature: ExcludedFeature
) -> None:
    rows = shop_orders.rows()

    body = {"location": "local", "properties": properties}
    message = shop_orders.error("PUT", path, body, status=400)["message"]

    assert feature.sentence in message
    assert shop_orders.rows() == rows


@pytest.mark.parametrize("kind", [*DESTINATIONS])
def test_a_destination_names_its_feature(orders: ArmApi, kind: str) -> None:
    properties = {"destination": {"endpointType": kind, "properties": {"resourceId": "/x"}}}

    message = orders.error("PUT", CRM, {"properties": properties}, status=400)["message"]

    assert DESTINATIONS[kind].sentence in message
