"""Names that Azure takes, places that it knows, and tags."""

from __future__ import annotations

import re
from typing import Any

from tools.bicepcheck.evaluation.deployment import Deployment
from tools.bicepcheck.evaluation.values import Deployed, Given, Made, Text, leaves
from tools.bicepcheck.problems import Report
from tools.bicepcheck.rules.app import App
from tools.bicepcheck.types import kinds as t
from tools.bicepcheck.types import resource_types

_LENGTHS = {"uniqueString": 13, "guid": 36, "newGuid": 36}
_STORAGE = "Microsoft.Storage/storageAccounts"

NAMES = {
    _STORAGE: (3, 24, r"[a-z0-9]+"),
    f"{_STORAGE}/queueServices/queues": (3, 63, r"[a-z0-9](-?[a-z0-9])*"),
    f"{_STORAGE}/blobServices/containers": (3, 63, r"[a-z0-9](-?[a-z0-9])*"),
    f"{_STORAGE}/tableServices/tables": (3, 63, r"[A-Za-z][A-Za-z0-9]*"),
    f"{_STORAGE}/managementPolicies": (7, 7, r"default"),
    f"{_STORAGE}/blobServices": (7, 7, r"default"),
    f"{_STORAGE}/queueServices": (7, 7, r"default"),
    f"{_STORAGE}/tableServices": (7, 7, r"default"),
    "Microsoft.KeyVault/vaults": (3, 24, r"[A-Za-z](-?[A-Za-z0-9])*"),
    "Microsoft.KeyVault/vaults/secrets": (1, 127, r"[A-Za-z0-9-]+"),
    "Microsoft.Web/sites": (2, 60, r"[A-Za-z0-9](-?[A-Za-z0-9])*"),
    "Microsoft.Web/serverfarms": (1, 60, r"[A-Za-z0-9-]+"),
    "Microsoft.ManagedIdentity/userAssignedIdentities": (3, 128, r"[A-Za-z0-9][A-Za-z0-9_-]*"),
    "Microsoft.OperationalInsights/workspaces": (4, 63, r"[A-Za-z0-9](-?[A-Za-z0-9])*"),
    "Microsoft.Insights/components": (1, 260, r"[^%&\\?/]+[^%&\\?/.]"),
    "Microsoft.Insights/actionGroups": (1, 260, r"[^:<>+/&%\\?|]+"),
    "Microsoft.Insights/metricAlerts": (1, 260, r"[^*#&+:<>?@%{}\\/|]+"),
    "Microsoft.Insights/scheduledQueryRules": (1, 260, r"[^*#&+:<>?@%{}\\/|]+"),
    "Microsoft.Network/virtualNetworks": (2, 64, r"[A-Za-z0-9][\w.-]*\w"),
    "Microsoft.Network/privateEndpoints": (2, 64, r"[A-Za-z0-9][\w.-]*\w"),
    "Microsoft.Resources/resourceGroups": (1, 90, r"[\w().-]*[\w()-]"),
    "Microsoft.Consumption/budgets": (1, 63, r"[A-Za-z0-9_-]+"),
}
"""Shortest, longest and letters of names, from Azure's naming rules."""

_GLOBAL = frozenset(
    {
        "Microsoft.Insights/actionGroups",
        "Microsoft.Insights/metricAlerts",
        "Microsoft.Network/privateDnsZones",
        "Microsoft.Network/privateDnsZones/virtualNetworkLinks",
    }
)


def check(deployment: Deployment, app: App, report: Report) -> None:
    """Check names, locations and tags of the resources that are made."""
    seen: dict[Any, Deployed] = {}
    for one in deployment.resources:
        if one.existing:
            continue
        _name(one, report)
        key = (one.type.lower(), one.name, id(one.parent), id(one.scope))
        if key in seen:
            report.add(one.file, one.line, "name", f"{one.symbol}: a second one of the same name")
        seen[key] = one
        _location(one, report)
        _tags(one, app, report)


def _name(one: Deployed, report: Report) -> None:
    rule, line = NAMES.get(one.type), one.line_of("name")
    if one.name == "" or one.name is None:
        report.add(one.file, line, "name", f"{one.symbol} has no name")
        return
    if _is_of_this_deployment(one.name):
        message = f"{one.symbol}: another name at each deployment, and so another resource"
        report.add(one.file, line, "changes-each-time", message)
    if rule is None:
        return
    shortest, longest, letters = rule
    parts = one.name.parts if isinstance(one.name, Text) else (one.name,)
    text = "".join(p if isinstance(p, str) else "a" * _most(p) for p in parts)
    whole = all(isinstance(p, str) or _LENGTHS.get(getattr(p, "function", "")) for p in parts)
    if not re.fullmatch(letters, text):
        report.add(one.file, line, "name", f"{one.symbol}: '{text}' is no name of a {one.type}")
    elif len(text) > longest or (whole and len(text) < shortest):
        message = (
            f"{one.symbol}: a name of {len(text)} letters; {shortest} to {longest} are allowed"
        )
        report.add(one.file, line, "name", message)


def _most(part: Any) -> int:
    """Return the letters that what is not known may have; one, if nothing says more."""
    most = _LENGTHS.get(part.function) if isinstance(part, Made) else None
    return most or (part.longest if isinstance(part, Given) else None) or 1


def _is_of_this_deployment(value: Any) -> bool:
    """Whether a value is made of the deployment's own name, which azd and `az` choose anew."""
    if isinstance(value, Made):
        return value.function == "deployment.name" or any(map(_is_of_this_deployment, value.args))
    return isinstance(value, Text) and any(map(_is_of_this_deployment, value.parts))


def _location(one: Deployed, report: Report) -> None:
    value, line = one.at("location"), one.line_of("location")
    if value is None:
        return
    if one.type in _GLOBAL:
        if value != "global":
            report.add(one.file, line, "location", f"{one.type} is 'global'")
    elif isinstance(value, str):
        report.add(one.file, line, "location", f"{one.symbol}: a fixed location, '{value}'")
    elif not isinstance(value, Given) and not str(getattr(value, "function", "")).endswith(
        ".location"
    ):
        report.add(one.file, line, "location", f"{one.symbol}: the location is a parameter's")


def _tags(one: Deployed, app: App, report: Report) -> None:
    found = resource_types.known(one.type)
    body = found.body if found else None
    tags = one.at("tags")
    if not isinstance(body, t.Obj) or "tags" not in body.fields or one.type.endswith("/secrets"):
        return
    if isinstance(tags, Made | Given):
        return
    if not isinstance(tags, dict) or not any(
        isinstance(one, Given) for one in leaves(tags.get("azd-env-name"))
    ):
        message = f"{one.symbol} lacks the tag 'azd-env-name', by which azd finds what is its own"
        report.add(one.file, one.line_of("tags"), "tags", message)
        return
    if one.type == "Microsoft.Web/sites" and tags.get("azd-service-name") != app.service:
        message = f"the tag 'azd-service-name' is not '{app.service}', as in azure.yaml"
        report.add(one.file, one.line_of("tags"), "tags", message)
    if one.type != "Microsoft.Web/sites" and "azd-service-name" in tags:
        report.add(one.file, one.line_of("tags"), "tags", "only the app has an 'azd-service-name'")
