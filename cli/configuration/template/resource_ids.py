"""Defines the functions of ARM templates that depend on where a template is deployed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from cli.configuration.template.expressions import ExpressionFault

_PROVIDERS = "/providers/"


class ResourceGroup(NamedTuple):
    """The resource group that a template is read for."""

    subscription: str
    name: str

    @property
    def id(self) -> str:
        return f"/subscriptions/{self.subscription}/resourceGroups/{self.name}"

    @property
    def folded_id(self) -> str:
        """Its id to compare with."""
        return self.id.casefold()


def group_of(arm_id: str) -> ResourceGroup:
    """Return the resource group of an ARM id, ``/subscriptions/ID/resourceGroups/NAME``."""
    parts = arm_id.strip("/").split("/")
    return ResourceGroup(*parts[1::2])


def _provider_path(name: str, arguments: tuple[str, ...]) -> tuple[tuple[str, ...], str]:
    """Return what precedes the type among the *arguments*, and the part of an id from it on."""
    at = next((index for index, each in enumerate(arguments) if "/" in each), None)
    if at is None:
        raise ExpressionFault(f"{name}(): there is no type such as Microsoft.EventGrid/topics")
    provider, *types = arguments[at].split("/")
    names = arguments[at + 1 :]
    if len(types) != len(names):
        count = f"takes {len(types)} names, not {len(names)}"
        raise ExpressionFault(f"{name}(): argument {at + 1}, the type, {count}")
    pairs = (f"{one}/{other}" for one, other in zip(types, names, strict=True))
    return arguments[:at], _PROVIDERS + "/".join([provider, *pairs])


def _resource_id(group: ResourceGroup, *arguments: str) -> str:
    given, path = _provider_path("resourceId", arguments)
    own = ResourceGroup(
        given[-2] if len(given) > 1 else group.subscription,
        given[-1] if given else group.name,
    )
    return own.id + path


def _subscription_resource_id(group: ResourceGroup, *arguments: str) -> str:
    given, path = _provider_path("subscriptionResourceId", arguments)
    return f"/subscriptions/{given[-1] if given else group.subscription}{path}"


def _management_group_resource_id(_: ResourceGroup, *arguments: str) -> str:
    given, path = _provider_path("managementGroupResourceId", arguments)
    if not given:
        raise ExpressionFault("managementGroupResourceId(): the name of the group is missing")
    return f"/providers/Microsoft.Management/managementGroups/{given[-1]}{path}"


def _resource_group(group: ResourceGroup) -> dict[str, Any]:
    return {
        "id": group.id,
        "name": group.name,
        "type": "Microsoft.Resources/resourceGroups",
        "location": "local",
        "managedBy": None,
        "tags": {},
        "properties": {"provisioningState": "Succeeded"},
    }


def _subscription(group: ResourceGroup) -> dict[str, Any]:
    own = group.subscription
    return {
        "id": f"/subscriptions/{own}",
        "subscriptionId": own,
        "tenantId": own,
        "displayName": "local",
    }


def _tenant(group: ResourceGroup) -> dict[str, Any]:
    own = group.subscription
    return {
        "id": f"/tenants/{own}",
        "tenantId": own,
        "countryCode": "",
        "displayName": "local",
    }


def _environment(_: ResourceGroup) -> dict[str, Any]:
    """Return the document of Azure's public cloud, as the documentation has it."""
    login, management = "https://login.microsoftonline.com/", "https://management.core.windows.net/"
    return {
        "name": "AzureCloud",
        "gallery": "https://gallery.azure.com/",
        "graph": "https://graph.windows.net/",
        "portal": "https://portal.azure.com",
        "graphAudience": "https://graph.windows.net/",
        "activeDirectoryDataLake": "https://datalake.azure.net/",
        "batch": "https://batch.core.windows.net/",
        "media": "https://rest.media.azure.net",
        "sqlManagement": "https://management.core.windows.net:8443/",
        "vmImageAliasDoc": (
            "https://raw.githubusercontent.com/Azure/azure-rest-api-specs/master/"
            "arm-compute/quickstart-templates/aliases.json"
        ),
        "resourceManager": "https://management.azure.com/",
        "authentication": {
            "loginEndpoint": login,
            "audiences": [management, "https://management.azure.com/"],
            "tenant": "common",
            "identityProvider": "AAD",
        },
        "suffixes": {
            "acrLoginServer": ".azurecr.io",
            "azureDatalakeAnalyticsCatalogAndJob": "azuredatalakeanalytics.net",
            "azureDatalakeStoreFileSystem": "azuredatalakestore.net",
            "azureFrontDoorEndpointSuffix": "azurefd.net",
            "keyvaultDns": ".vault.azure.net",
            "sqlServerHostname": ".database.windows.net",
            "storage": "core.windows.net",
        },
    }


# These get the resource group first.
GROUP_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "environment()": _environment,
    "extensionResourceId(text, text, text, text...)": lambda _, base, *names: (
        base + _provider_path("extensionResourceId", names)[1]
    ),
    "managementGroupResourceId(text, text, text, text...)": _management_group_resource_id,
    "resourceGroup()": _resource_group,
    "resourceId(text, text, text...)": _resource_id,
    "subscription()": _subscription,
    "subscriptionResourceId(text, text, text...)": _subscription_resource_id,
    "tenant()": _tenant,
    "tenantResourceId(text, text, text...)": lambda _, *names: _provider_path(
        "tenantResourceId", names
    )[1],
}
