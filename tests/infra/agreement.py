"""Rules: templates and code have the same names, defaults and choices, in both directions."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import fields
from datetime import UTC, datetime
from functools import cache
from importlib import import_module
from typing import Any

from devhost.timer.ncrontab import ScheduleError, parse
from shared import settings
from shared.arm.arm_json import MAX_BODY
from shared.arm.dead_letter_codec import _OWN_CONTAINER
from shared.delivery.profiles import PROFILES
from shared.engine.keeping.deployment_terms import DeploymentTerms
from shared.engine.ports import Queue
from shared.engine.ports.documents import Table
from shared.errors import InvalidSettings
from shared.events.data_plane import CUSTOM, NAMESPACE
from tests.builders import a_topic
from tests.infra.deployed import (
    ROOT,
    Deployment,
    Snapshot,
    differences,
    documents,
    rule,
    table,
    text_of,
    unequal,
)

SETTINGS = table("settings")
FUNCTIONS = {name: each["bindings"] for name, each in documents()["functions"].items()}
BINDINGS = [each for bindings in FUNCTIONS.values() for each in bindings]
(SERVICE,) = SETTINGS["azure.yaml"]["services"]
SCHEDULES = set(re.findall(r"%(\w+)%", json.dumps(BINDINGS)))


@rule
def settings_are_those_of_the_code(snapshot: Snapshot) -> Iterable[str]:
    not_written = {each for names in SETTINGS["not written"].values() for each in names}
    connections = {settings.STORAGE} | {each.get("connection") for each in BINDINGS} - {None}
    wanted = {
        *(set(settings.NAMES.values()) - not_written),
        *SCHEDULES,
        *SETTINGS["read by the host and its worker"],
        *(f"{prefix}__{member}" for prefix in connections for member in SETTINGS["connection"]),
    }
    return differences("setting", snapshot.settings, wanted)


@rule
def settings_have_the_values_of_their_parameters(snapshot: Snapshot) -> Iterable[str]:
    given = snapshot.given
    vault = f"https://{snapshot.one('KeyVault/vaults').name}.vault.azure.net/secrets"
    secrets = {name: given[parameter] for name, parameter in SETTINGS["secrets"].items()}
    secrets["PUSHGRID_ADMIN_KEY"] = snapshot.one("vaults/secrets").name
    names = [each.rpartition("/")[2] for each in snapshot.dead_letter_accounts]
    accounts = ",".join(f"{each}=https://{each}.blob.core.windows.net" for each in names)
    address = given["publicUrl"] or f"https://reference({snapshot.ids['site']}).defaultHostName"
    wanted = {
        name: f"@Microsoft.KeyVault(SecretUri={vault}/{secret})" if secret else ""
        for name, secret in secrets.items()
    } | {
        "PUSHGRID_DEADLETTER_ACCOUNTS": accounts,
        "PUSHGRID_PUBLIC_URL": address,
        "PYTHON_THREADPOOL_THREAD_COUNT": str(given["httpConcurrency"]),
    }
    for name in snapshot.settings.keys() & settings.NAMES.values() - wanted.keys():
        first, *words = name.removeprefix("PUSHGRID_").lower().split("_")
        value = given.get(first + "".join(map(str.capitalize, words)))
        if value is not None:
            wanted[name] = str(value).lower() if isinstance(value, bool) else value
        elif name != "PUSHGRID_WAKE_SCHEDULE":
            yield f"no parameter sets {name}"
    yield from unequal(snapshot.settings, {k: wanted[k] for k in wanted if k in snapshot.settings})


@rule
def parameters_can_be_told_apart(deployment: Deployment) -> Iterable[str]:
    """Else snapshots would not show that two of them are exchanged."""
    seen: dict[Any, str] = {}
    for name, declared in deployment.parameters.items():
        if declared["type"] == "securestring":
            continue
        values = [repr(each.given[name]) for each in deployment.snapshots.values()]
        if (other := seen.setdefault(tuple(values), name)) != name:
            yield f"{name} has the values of {other} in every snapshot"


def taken(deployed: dict[str, Any]) -> settings.Settings:
    """Return the app's settings of what is deployed; `InvalidSettings` if it would not start."""
    ours = {name: value for name, value in deployed.items() if name.startswith("PUSHGRID_")}
    return settings.from_environ(ours | {settings.STORAGE: "x"}, frozenset(PROFILES))


@rule
def azd_and_the_host_start_every_function(deployment: Deployment) -> Iterable[str]:
    """Of this folder, and a timer by the schedule of a setting."""
    yield from unequal(deployment.azd, SETTINGS["azure.yaml"])
    for name, function in deployment.functions.items():
        schedules = [each.get("schedule", "%%") for each in function["bindings"]]
        if function.get("disabled") or not all(re.fullmatch(r"%\w*%", each) for each in schedules):
            yield f"{name} is disabled, or its schedule is no setting: {schedules}"


@rule
def the_app_takes_its_settings(snapshot: Snapshot) -> Iterable[str]:
    try:
        taken(snapshot.settings)
    except InvalidSettings as error:
        yield str(error)


@rule
def what_can_be_chosen_is_what_the_code_knows(deployment: Deployment) -> Iterable[str]:
    known: dict[str, Iterable[str]] = {
        "profile": PROFILES,
        "attemptLog": settings.AttemptLogging,
        "publishLog": settings.PublishLogging,
        "principalType": ("User", "ServicePrincipal"),  # a person, or the pipeline
    }
    for parameter, values in known.items():
        chosen = deployment.parameters[parameter].get("allowedValues", ())
        yield from differences(f"choice of {parameter}:", chosen, values)


@rule
def defaults_are_the_codes(deployment: Deployment) -> Iterable[str]:
    """An empty setting has its default; a schedule has that of guide and model of cost."""
    of_azure = {"public_url", "wake_schedule", "deadletter_schedule"}
    ours, bare = taken(deployment.snapshots["default"].settings), taken({})
    for name in {each.name for each in fields(settings.Settings)} - of_azure:
        yield from unequal({name: getattr(ours, name)}, {name: getattr(bare, name)})
    yield from unequal(deployment.parameters["deadletterSchedule"], {"defaultValue": "0 * * * * *"})


@rule
def schedules_are_a_timers(snapshot: Snapshot) -> Iterable[str]:
    for name in SCHEDULES & snapshot.settings.keys():
        text = snapshot.settings[name]
        try:
            parse(text).next_after(datetime(2027, 1, 1, tzinfo=UTC))
        except ScheduleError as error:
            yield f"{name}: {error}"
        if len(text.split()) != 6:
            yield f"{name}: {text!r} must have six fields, seconds first"


@cache
def constants(client: str) -> set[str]:
    """Return the names that the code gives to clients of storage as constants."""
    return {
        getattr(import_module(f"shared.adapters.azure_storage.{path.stem}"), name)
        for path in (ROOT / "shared/adapters/azure_storage").glob("*.py")
        for name in re.findall(rf"\.{client}\(([A-Z]+)\)", path.read_text())
    }


@rule
def queues_and_tables_are_the_codes(snapshot: Snapshot) -> Iterable[str]:
    """To the queue of poison the host moves what a trigger does not take."""
    triggers = {each["queueName"] for each in BINDINGS if each["type"] == "queueTrigger"}
    queues = {*Queue, *triggers, *(f"{each}-poison" for each in triggers)}
    yield from differences("queue", snapshot.names("/queues"), queues)
    yield from differences("table", snapshot.names("/tables"), {*Table, *constants("table")})


@rule
def containers_are_the_codes_and_one_of_dead_letters(snapshot: Snapshot) -> Iterable[str]:
    made = snapshot.names("/containers")
    ours = {name for name in made if _OWN_CONTAINER.fullmatch(name)}
    yield from differences("container", ours, {*constants("container"), snapshot.package_container})
    yield from differences("container of docs and examples", set(made) - ours, {"deadletters"})


@rule
def payloads_outlive_the_apps_own_care_for_them(deployment: Deployment) -> Iterable[str]:
    """A rule that deleted earlier would lose events; housekeeping may wait a day after a gap."""
    terms = DeploymentTerms(topics=None, default_profile="latest", time_scale=1)  # type: ignore[arg-type]
    longest = max(terms.payloads_kept_for(a_topic(profile=each)).days for each in PROFILES) + 1
    ours = deployment.parameters["payloadRetentionDays"]
    if longest != 15 or not ours["defaultValue"] > ours["minValue"] > longest:
        yield f"payloads must stay more than {longest} days, and 21 by default"


@rule
def azd_finds_app_and_resources_by_their_tags(snapshot: Snapshot) -> Iterable[str]:
    tags = {"azd-env-name": snapshot.given["environmentName"]}
    for each in snapshot.resources:
        is_app = each.type == "Microsoft.Web/sites"
        wanted = tags | {"azd-service-name": SERVICE} if is_app else tags
        if each.at("tags") != (wanted if "location" in each.document else None):
            yield f"{each.type} {each.name} has the tags {each.at('tags')}"


@rule
def the_file_of_parameters_has_each_with_its_default(deployment: Deployment) -> Iterable[str]:
    yield from differences("parameter", deployment.parameters_file, deployment.parameters)
    guide = text_of("docs/deploy.md").partition("### Parameters")[2].partition("## ")[0]
    ours = re.findall(r"\$\{(PUSHGRID_\w+)", str(deployment.parameters_file))
    yield from differences("variable", re.findall(r"`(PUSHGRID_[A-Z_]+)`", guide), ours)
    for name in deployment.parameters_file.keys() & deployment.parameters.keys():
        declared = deployment.parameters[name]
        words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).upper()
        default = declared.get("defaultValue", "")
        shown = f"={json.dumps(default).strip(chr(34))}" if default != "" else ""
        variable = SETTINGS["variables that azd sets"].get(name, f"PUSHGRID_{words}")
        yield from unequal(deployment.parameters_file[name], {"value": f"${{{variable}{shown}}}"})


@rule
def what_is_asked_of_a_deployment_is_an_output(deployment: Deployment) -> Iterable[str]:
    asked = set(re.findall(r"\$(?:env:)?([A-Z_]{4,})", text_of("azure.yaml")))
    for page in ("docs/deploy.md", ".github/workflows/deploy.yml", ".github/workflows/trial.yml"):
        asked |= set(re.findall(r"azd env get-value (\w+)", text_of(page)))
    yield from differences("output", asked & deployment.main["outputs"].keys(), asked)
    for snapshot in deployment.snapshots.values():
        wanted = {name: snapshot.one(kind).name for name, kind in SETTINGS["outputs"].items()} | {
            "AZURE_LOCATION": snapshot.given["location"],
            "AZURE_TENANT_ID": snapshot.one("KeyVault/vaults").at("properties.tenantId"),
            "PUSHGRID_URL": "reference(app).outputs.url.value",
        }
        yield from differences("output", snapshot.outputs, wanted)
        yield from unequal(snapshot.outputs, wanted)
    url = {"value": "[format('https://{0}', reference('Microsoft.Web/sites').defaultHostName)]"}
    yield from unequal(deployment.modules["app"]["outputs"].get("url", {}), url)


@rule
def what_is_written_elsewhere_is_what_is_deployed(snapshot: Snapshot) -> Iterable[str]:
    limit = snapshot.settings.get("FUNCTIONS_REQUEST_BODY_SIZE_LIMIT", "0")
    if max(CUSTOM.max_request_size, NAMESPACE.max_request_size, MAX_BODY) >= int(limit):
        yield "the host would cut a body that the app takes"
    python = snapshot.one("Web/sites").at("properties.functionAppConfig.runtime.version")
    deployed = {limit, python, snapshot.one("vaults/secrets").name}
    for page, pattern in SETTINGS["written elsewhere"]:
        found = re.findall(pattern, text_of(page))
        if not found or set(found) - deployed:
            yield f"{page} has {found}, and {deployed} are deployed"
