"""Rules about agreement with the code: settings, queues, tables, containers, functions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from devhost.timer.ncrontab import ScheduleError, parse
from tools.bicepcheck.evaluation.evaluated_folder import EvaluatedFolder
from tools.bicepcheck.evaluation.shapes import suggestion
from tools.bicepcheck.evaluation.values import (
    Deployed,
    Input,
    Located,
    PartialText,
    Ref,
    is_known,
    leaves,
    members,
    shown,
)
from tools.bicepcheck.problems import Problem
from tools.bicepcheck.rules import azure
from tools.bicepcheck.rules.names_in_code import App

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
"""Settings that Flex Consumption rejects or ignores, or that contain a key."""

_INSIGHTS_STRING = "APPLICATIONINSIGHTS_CONNECTION_STRING"
_INSIGHTS_LOGIN = "APPLICATIONINSIGHTS_AUTHENTICATION_STRING"
_HOST_SETTING = re.compile(
    r"AzureFunctionsJobHost__\w+|WEBSITE_\w+|APPLICATIONINSIGHTS_\w+"
    r"|FUNCTIONS_(REQUEST_BODY_SIZE_LIMIT|ENABLE_DRAIN_ON_APP_STOPPING)"
    r"|PYTHON_(THREADPOOL_THREAD_COUNT|ENABLE_DEBUG_LOGGING|ENABLE_WORKER_EXTENSIONS"
    r"|ISOLATE_WORKER_DEPENDENCIES|ENABLE_INIT_INDEXING|SCRIPT_FILE_NAME|ENABLE_OPENTELEMETRY"
    r"|APPLICATIONINSIGHTS_ENABLE_TELEMETRY)"
)
"""Settings that the Functions host and its workers read."""

_SERVICES = {"blobServiceUri": "blob", "queueServiceUri": "queue", "tableServiceUri": "table"}
_VAULT_REFERENCE = re.compile(
    r"@Microsoft\.KeyVault\((SecretUri=…[^;)]*|VaultName=[^;)]+;SecretName=[^;)]+(;SecretVersion=[^;)]+)?)\)"
)
_SECRET_ADDRESSES = {("properties", "secretUri"), ("properties", "vaultUri"), ("name",)}
_BLOB_TYPES = ("appendBlob", "blockBlob")
_SIX_FIELDS = re.compile(r"(\S+ ){5}\S+")


def check(deployment: EvaluatedFolder, app: App) -> Iterator[Problem]:
    """Check the names and settings that code and templates share."""
    yield from _created(deployment, "queue", azure.QUEUE, app.queues)
    yield from _created(deployment, "table", azure.TABLE, app.tables)
    yield from _created(deployment, "container", azure.CONTAINER, app.containers)
    settings = [one for one in deployment.of(f"{azure.SITE}/config") if one.name == "appsettings"]
    for one in settings:
        yield from _settings(one, app, deployment.of(azure.STORAGE))
    for site in deployment.of(azure.SITE):
        if not settings:
            message = "the app has no settings: add a config resource named 'appsettings'"
            yield site.problem("setting", message)
        yield from _always_ready(site, app)
    for one in deployment.of(azure.LIFECYCLE):
        yield from _lifecycle(one, deployment, app)


def _created(
    deployment: EvaluatedFolder, what: str, kind: str, names: frozenset[str]
) -> Iterator[Problem]:
    created = deployment.of(kind)
    have = [str(one.name) for one in created]
    where = next(iter(created or deployment.resources), None)
    if where is None:
        return
    for name in sorted(names - set(have)):
        message = f"the app uses the {what} '{name}', which nothing creates{suggestion(name, have)}"
        yield where.problem(what, message)
    for one in created:
        if what != "container" and one.name not in names:
            name = str(one.name)
            message = f"the app uses no {what} '{name}'{suggestion(name, sorted(names))}"
            yield one.problem(what, message)


def _settings(one: Deployed, app: App, accounts: list[Deployed]) -> Iterator[Problem]:
    settings = one.at("properties")
    if not isinstance(settings, Located):
        return
    keys = (*_SERVICES, "clientId", "credential")
    needed = {f"{prefix}__{key}" for prefix in app.connections for key in keys}
    needed |= {_INSIGHTS_STRING, _INSIGHTS_LOGIN}
    for name, value in settings.items():
        for message in (
            _unread(name, needed | app.settings),
            _value(name, value, app, one, accounts),
        ):
            if message:
                yield one.problem("setting", f"{name}: {message}", "properties", name)
        reader = one.parent and one.parent.at("properties", "keyVaultReferenceIdentity")
        if "@Microsoft.KeyVault(" in shown(value) and not reader:
            message = "the app needs a keyVaultReferenceIdentity to read the secret"
            yield one.problem("setting", f"{name}: {message}", "properties", name)
    for name in sorted((app.required | needed) - set(settings)):
        message = f"the app requires the setting {name}{suggestion(name, settings)}"
        yield one.problem("setting", message, "properties")


def _unread(name: str, names: set[str] | frozenset[str]) -> str | None:
    if name in FORBIDDEN:
        return "Flex Consumption does not use this setting, or it contains a key; delete it"
    if name in names:
        return None
    hint = suggestion(name, sorted(names))
    unlike = not hint or name.startswith(("PYTHON_", "AzureFunc"))
    if _HOST_SETTING.fullmatch(name) and unlike:
        return None
    return f"nothing reads this setting{hint or '; delete it'}"


def _value(name: str, value: Any, app: App, one: Deployed, accounts: list[Deployed]) -> str | None:
    """Return what is wrong with the value of a setting."""
    text, parts = shown(value), list(leaves(value))
    if any(isinstance(leaf, Input) and leaf.secret for leaf in parts):
        return "a secret in plain text: use a Key Vault reference"
    prefix, separator, member = name.partition("__")
    if separator and prefix in app.connections:
        return _connection(member, value, one, accounts)
    if name == _INSIGHTS_STRING:
        right = isinstance(value, Ref) and value.reads(
            azure.INSIGHTS, "properties", "ConnectionString"
        )
        return None if right else "must be the ConnectionString of Application Insights"
    if name == _INSIGHTS_LOGIN:
        right = isinstance(value, PartialText) and text == "ClientId=…;Authorization=AAD"
        if right and _is_client_id(value.parts[1]):
            return None
        return "must be ClientId=<client id of the identity>;Authorization=AAD"
    if text.startswith("@"):
        return _vault_reference(value, text)
    if name.endswith("_SCHEDULE") and is_known(value):
        return _schedule(text)
    return None


def _is_client_id(value: Any) -> bool:
    return isinstance(value, Ref) and value.reads(azure.IDENTITY, "properties", "clientId")


def _schedule(text: str) -> str | None:
    """Return what is wrong with a schedule; the local host reads schedules as Azure's does."""
    if not _SIX_FIELDS.fullmatch(text):
        return f"'{text}' must have six fields, seconds first"
    try:
        parse(text).next_after(datetime(2027, 1, 1, tzinfo=UTC))
    except ScheduleError as error:
        return str(error)
    return None


def _connection(key: str, value: Any, one: Deployed, accounts: list[Deployed]) -> str | None:
    if service := _SERVICES.get(key):
        right = azure.path_at_service(value, service, accounts) == ""
        return None if right else f"must be the address of the {service} service"
    if key == "credential":
        return None if value == "managedidentity" else "must be 'managedidentity'"
    if key == "clientId":
        if not _is_client_id(value):
            return "must be the clientId of the app's identity"
        held = one.parent.at("identity", "userAssignedIdentities") if one.parent else None
        if isinstance(held, Located) and not any(
            isinstance(key, Ref) and key.of is value.of for key in held
        ):
            return "the clientId of an identity that the app does not have"
    return None


def _vault_reference(value: Any, text: str) -> str | None:
    if not _VAULT_REFERENCE.fullmatch(text):
        return "not a Key Vault reference: write @Microsoft.KeyVault(SecretUri=…)"
    first = next((leaf for leaf in leaves(value) if isinstance(leaf, Ref)), None)
    if first is None:
        return None
    in_vault = first.of.type.startswith("Microsoft.KeyVault/")
    if in_vault and first.path in _SECRET_ADDRESSES:
        return None
    return f"{first} is not the address of a secret"


def _always_ready(one: Deployed, app: App) -> Iterator[Problem]:
    groups = ["http", "blob", "durable"]
    groups += [f"function:{key}" for key, kind in app.functions.items() if kind != "httpTrigger"]
    path = ("properties", "functionAppConfig", "scaleAndConcurrency", "alwaysReady")
    for entry in one.items(*path):
        name = entry.get("name")
        if isinstance(name, str) and name not in groups:
            message = f"there is no group '{name}' to keep ready{suggestion(name, groups)}"
            yield one.problem("function", message, line=entry.line)


def _lifecycle(one: Deployed, deployment: EvaluatedFolder, app: App) -> Iterator[Problem]:
    """Rules name containers that the deployment creates, and delete only payloads."""
    created = {str(made.name) for made in deployment.of(azure.CONTAINER)}
    for rule in one.items("properties", "policy", "rules"):
        definition = rule.get("definition") or {}
        for message in _lifecycle_rule(definition, created, app):
            yield one.problem("lifecycle", message, line=rule.line)
        for path, days in members(definition.get("actions")):
            early = isinstance(days, int) and days < app.retention_days
            if early and path[-1].startswith("daysAfter"):
                message = (
                    f"{path[-1]} is {days}; the app needs payloads for {app.retention_days} days"
                )
                yield one.problem("lifecycle", message, line=rule.line)


def _lifecycle_rule(definition: Any, created: set[str], app: App) -> Iterator[str]:
    filters = definition.get("filters") or {}
    for kind in filters.get("blobTypes") or []:
        if isinstance(kind, str) and kind not in _BLOB_TYPES:
            yield f"there is no blob type '{kind}'{suggestion(kind, _BLOB_TYPES)}"
    prefixes = filters.get("prefixMatch")
    if not prefixes:
        yield "the rule applies to all containers; set prefixMatch"
    for prefix in prefixes or []:
        if isinstance(prefix, str):
            container, slash, _ = prefix.partition("/")
            if container not in created or not slash:
                yield f"'{prefix}' must be a container that the deployment creates, and a slash"
            elif container not in app.expiring:
                yield f"the app needs all blobs of '{container}'; delete the rule"
