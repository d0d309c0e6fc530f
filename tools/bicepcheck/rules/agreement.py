"""The app beside its templates: settings, queues, tables, containers, functions, log lines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from devhost.timer.ncrontab import ScheduleError, parse
from tools.bicepcheck.evaluation.deployment import Deployment
from tools.bicepcheck.evaluation.values import (
    Deployed,
    Given,
    Lined,
    Made,
    Ref,
    Text,
    known,
    leaves,
    plain,
)
from tools.bicepcheck.problems import Report
from tools.bicepcheck.rules.addresses import doubled, rest_of
from tools.bicepcheck.rules.app import App
from tools.bicepcheck.rules.policy import members
from tools.bicepcheck.types import kinds as t

_STORAGE = "Microsoft.Storage/storageAccounts"
_IDENTITY = "Microsoft.ManagedIdentity/userAssignedIdentities"
_SITE = "Microsoft.Web/sites"
_MADE = {
    "queue": f"{_STORAGE}/queueServices/queues",
    "table": f"{_STORAGE}/tableServices/tables",
    "container": f"{_STORAGE}/blobServices/containers",
}
FORBIDDEN = frozenset(
    {
        "FUNCTIONS_WORKER_RUNTIME", "FUNCTIONS_WORKER_RUNTIME_VERSION",
        "FUNCTIONS_EXTENSION_VERSION", "FUNCTIONS_WORKER_PROCESS_COUNT",
        "FUNCTIONS_MAX_HTTP_CONCURRENCY", "WEBSITE_RUN_FROM_PACKAGE",
        "SCM_DO_BUILD_DURING_DEPLOYMENT", "ENABLE_ORYX_BUILD", "WEBSITE_CONTENTSHARE",
        "WEBSITE_CONTENTAZUREFILECONNECTIONSTRING", "WEBSITE_MAX_DYNAMIC_APPLICATION_SCALE_OUT",
        "WEBSITE_VNET_ROUTE_ALL", "WEBSITE_TIME_ZONE", "TZ", "AzureWebJobsStorage",
        "AzureWebJobsStorage__accountName", "WEBSITE_NODE_DEFAULT_VERSION",
    }
)  # fmt: skip
"""Settings that Flex Consumption refuses or ignores, or that carry a key."""

_INSIGHTS_STRING = "APPLICATIONINSIGHTS_CONNECTION_STRING"
_INSIGHTS_LOGIN = "APPLICATIONINSIGHTS_AUTHENTICATION_STRING"
_HOST = re.compile(
    r"AzureFunctionsJobHost__\w+|WEBSITE_\w+|APPLICATIONINSIGHTS_\w+"
    r"|PYTHON_(THREADPOOL_THREAD_COUNT|ENABLE_DEBUG_LOGGING|ENABLE_WORKER_EXTENSIONS"
    r"|ISOLATE_WORKER_DEPENDENCIES|ENABLE_INIT_INDEXING|SCRIPT_FILE_NAME|ENABLE_OPENTELEMETRY"
    r"|APPLICATIONINSIGHTS_ENABLE_TELEMETRY)"
)
"""Settings that the host and its workers know."""

_SERVICES = {"blobServiceUri": "blob", "queueServiceUri": "queue", "tableServiceUri": "table"}
_VAULT_REFERENCE = re.compile(
    r"@Microsoft\.KeyVault\((SecretUri=…[^;)]*|VaultName=[^;)]+;SecretName=[^;)]+(;SecretVersion=[^;)]+)?)\)"
)
_BLOBS = frozenset({"blockBlob", "appendBlob"})
_SIX_FIELDS = re.compile(r"(\S+ ){5}\S+")


def check(deployment: Deployment, app: App, report: Report) -> None:
    """Check the names and settings that both sides know."""
    for kind, names in (
        ("queue", app.queues),
        ("table", app.tables),
        ("container", app.containers),
    ):
        _made(deployment, kind, names, report)
    for one in deployment.of(f"{_SITE}/config"):
        if one.name == "appsettings":
            _settings(one, app, deployment.of(_STORAGE), report)
    if deployment.of(_SITE) and not any(
        one.name == "appsettings" for one in deployment.of(f"{_SITE}/config")
    ):
        site = deployment.of(_SITE)[0]
        report.add(site.file, site.line, "setting", "the app gets no settings ('appsettings')")
    for one in deployment.of(_SITE):
        for entry in (
            one.at("properties", "functionAppConfig", "scaleAndConcurrency", "alwaysReady") or []
        ):
            _ready(one, entry, app, report)
    for one in deployment.of(f"{_STORAGE}/managementPolicies"):
        _lifecycle(one, deployment, app, report)


def _made(deployment: Deployment, kind: str, names: frozenset[str], report: Report) -> None:
    made = deployment.of(_MADE[kind])
    have = [str(one.name) for one in made]
    anchor = next(iter(made or deployment.resources), None)
    if anchor is None:
        return
    for name in sorted(names - set(have)):
        hint = t.nearest(name, have)
        report.add(
            anchor.file, anchor.line, kind, f"the {kind} '{name}' of the app is not made{hint}"
        )
    for one in made:
        if kind != "container" and one.name not in names:
            hint = t.nearest(str(one.name), sorted(names))
            report.add(one.file, one.line, kind, f"the app has no {kind} '{one.name}'{hint}")


def _settings(one: Deployed, app: App, accounts: list[Deployed], report: Report) -> None:
    settings = one.at("properties")
    if not isinstance(settings, Lined):
        return

    def problem(name: str, message: str) -> None:
        report.add(one.file, one.line_of("properties", name), "setting", f"{name}: {message}")

    keys = (*_SERVICES, "clientId", "credential")
    storage = {f"{prefix}__{key}" for prefix in app.connections for key in keys}
    known_names = app.settings | storage | {_INSIGHTS_STRING, _INSIGHTS_LOGIN}
    for name, value in settings.items():
        if name in FORBIDDEN:
            problem(name, "is not for Flex Consumption with an identity")
        elif name not in known_names and (not _HOST.fullmatch(name) or _near(name, known_names)):
            problem(name, f"nothing reads it{t.nearest(name, sorted(known_names))}")
        reader = one.parent and one.parent.at("properties", "keyVaultReferenceIdentity")
        if "@Microsoft.KeyVault(" in plain(value) and not reader:
            problem(name, "the app has no keyVaultReferenceIdentity to read the secret with")
        if why := _value(name, value, app, one, accounts):
            problem(name, why)
    for name in sorted(app.required | storage | {_INSIGHTS_STRING, _INSIGHTS_LOGIN}):
        if name not in settings:
            line = one.line_of("properties")
            report.add(
                one.file, line, "setting", f"{name} is needed{t.nearest(name, list(settings))}"
            )


def _near(name: str, names: frozenset[str] | set[str]) -> bool:
    return bool(t.nearest(name, sorted(names))) and not name.startswith(("PYTHON_", "AzureFunc"))


def _value(name: str, value: Any, app: App, one: Deployed, accounts: list[Deployed]) -> str | None:
    """Return what is wrong with a setting's value."""
    text = plain(value)
    if any(isinstance(leaf, Given) and leaf.secret for leaf in leaves(value)):
        return "a secret in plain text: use a Key Vault reference"
    prefix, separator, member = name.partition("__")
    if separator and prefix in app.connections:
        return _connection(member, value, one, accounts)
    if name == _INSIGHTS_STRING:
        asked = ("Microsoft.Insights/components", ("properties", "ConnectionString"))
        return None if _is(value, *asked) else "is the ConnectionString of Application Insights"
    if name == _INSIGHTS_LOGIN:
        right = isinstance(value, Text) and text == "ClientId=…;Authorization=AAD"
        if not right or not _is(value.parts[1], _IDENTITY, ("properties", "clientId")):
            return "is ClientId=<client id of the identity>;Authorization=AAD"
        return None
    if text.startswith("@"):
        return _vault(value, text)
    if any(isinstance(leaf, Ref) and leaf.path[-1] == "secretUri" for leaf in leaves(value)):
        return "is the address of a secret, not the secret: @Microsoft.KeyVault(SecretUri=…)"
    if "KeyVault" in text or "SecretUri" in text:
        return "a Key Vault reference begins with @Microsoft.KeyVault("
    if name.endswith("_SCHEDULE") and known(value):
        return _schedule(text)
    if name.endswith("_URL"):
        return _url(value, text)
    return None


def _schedule(text: str) -> str | None:
    """The local host reads schedules as the real one does."""
    if not _SIX_FIELDS.fullmatch(text):
        return f"'{text}' is no schedule of six fields"
    try:
        due = parse(text).next_after(datetime(2027, 1, 1, tzinfo=UTC))
    except ScheduleError as error:
        return str(error)
    return None if due else f"'{text}' is a schedule that is never due"


def _connection(key: str, value: Any, one: Deployed, accounts: list[Deployed]) -> str | None:
    if service := _SERVICES.get(key):
        right = rest_of(value, service, accounts) == ""
        return None if right else f"is the address of the {service} service"
    if key == "credential":
        return None if value == "managedidentity" else "is 'managedidentity'"
    if key == "clientId":
        if not _is(value, _IDENTITY, ("properties", "clientId")):
            return "is the clientId of the app's identity"
        held = one.parent.at("identity", "userAssignedIdentities") if one.parent else None
        if isinstance(held, Lined) and all(
            not isinstance(k, Ref) or k.of is not value.of for k in held
        ):
            return "is the clientId of an identity that the app does not have"
    return None


def _vault(value: Any, text: str) -> str | None:
    if not _VAULT_REFERENCE.fullmatch(text):
        return "is no Key Vault reference: @Microsoft.KeyVault(SecretUri=…)"
    if doubled(value):
        return "the address of a vault ends in a slash: there are two"
    refs = [leaf for leaf in leaves(value) if isinstance(leaf, Ref)]
    if not refs:
        return None
    first = refs[0]
    right = first.path in {("properties", "secretUri"), ("properties", "vaultUri"), ("name",)}
    if not first.of.type.startswith("Microsoft.KeyVault/") or not right:
        return f"the reference is to {first}, which is no address of a secret"
    return None


def _url(value: Any, text: str) -> str | None:
    if isinstance(value, Given) or value == "":
        return None
    if not text.startswith("https://") or text == "https://":
        return "is an address that begins with https://"
    host = [leaf for leaf in leaves(value) if isinstance(leaf, Ref)]
    if host and host[0].path[-1] not in {"defaultHostName", "hostNames", "vaultUri"}:
        return f"{host[0]} is no host name"
    return None


def _is(value: Any, kind: str, path: tuple[str, ...]) -> bool:
    return isinstance(value, Ref) and value.of.type == kind and value.path == path


def _ready(one: Deployed, entry: Any, app: App, report: Report) -> None:
    name = entry.get("name") if isinstance(entry, Lined) else None
    if not isinstance(name, str) or isinstance(name, Made):
        return
    groups = ["http", "blob", "durable"]
    groups += [f"function:{key}" for key, kind in app.functions.items() if kind != "httpTrigger"]
    if name not in groups:
        message = f"there is no group '{name}' to keep ready{t.nearest(name, groups)}"
        report.add(one.file, entry.line, "function", message)


def _lifecycle(one: Deployed, deployment: Deployment, app: App, report: Report) -> None:
    """Rules are about containers that are made, and delete nothing but payloads."""
    containers = {str(made.name) for made in deployment.of(_MADE["container"])}
    for rule in one.at("properties", "policy", "rules") or []:
        definition = rule.get("definition") or {} if isinstance(rule, Lined) else {}
        prefixes = (definition.get("filters") or {}).get("prefixMatch")
        line = rule.line if isinstance(rule, Lined) else one.line
        for kind in _texts((definition.get("filters") or {}).get("blobTypes")):
            if kind not in _BLOBS:
                message = f"'{kind}' is no kind of blob{t.nearest(kind, sorted(_BLOBS))}"
                report.add(one.file, line, "lifecycle", message)
        if not prefixes:
            report.add(one.file, line, "lifecycle", "a rule for every container: no prefixMatch")
        for prefix in _texts(prefixes):
            container, slash, _ = prefix.partition("/")
            if container not in containers or not slash:
                message = f"'{prefix}' is no container that is made, and a slash"
                report.add(one.file, line, "lifecycle", message)
            elif container not in app.expiring:
                report.add(one.file, line, "lifecycle", f"'{container}' is to be kept")
        for path, days in members(definition.get("actions")):
            if isinstance(days, int) and path[-1].startswith("daysAfter") and days < app.kept_days:
                message = f"{path[-1]} is {days}; the app needs payloads for {app.kept_days} days"
                report.add(one.file, line, "lifecycle", message)


def _texts(values: Any) -> Iterator[str]:
    for value in values or []:
        if isinstance(value, str):
            yield value
