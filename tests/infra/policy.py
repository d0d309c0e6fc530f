"""Rules: what we demand of every deployment, and what Azure refuses though it compiles."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from ipaddress import IPv4Network
from typing import Any

from shared.adapters.azure_storage import clients
from tests.infra.agreement import FUNCTIONS
from tests.infra.deployed import Deployment, Snapshot, differences, rule, table, unequal

AZURE = table("azure")
#: What reveals one in a value; without its login the logs' connection string reveals none.
SECRET = re.compile(r"externalInputs\(|\blist\w*\(|\.(ConnectionString|InstrumentationKey)\b")
SECRET_NAME = re.compile(r"(key|secret|password|connectionString|token|sas)$", re.IGNORECASE)


def filled(rows: Any, facts: Mapping[str, Any]) -> Any:
    """Return rows of the table with what stands for its names in braces; what is empty is none."""
    text = re.sub(r'"{(\w+)}"', lambda name: json.dumps(facts[name[1]] or None), json.dumps(rows))
    return json.loads(re.sub(r"{(\w+)}", lambda name: str(facts[name[1]]), text))


def add_rule_of_values(name: str, rows: Mapping[str, Mapping[str, list[Any]]]) -> None:
    """Add a rule of values.json: by type and path, the values that are allowed."""

    def check(snapshot: Snapshot) -> Iterator[str]:
        access = AZURE["closed" if snapshot.given["vnetEnabled"] else "open"]
        facts = {**snapshot.given, **snapshot.ids, **access, "payloads": clients.PAYLOADS}
        for kind, values in filled(rows, facts).items():
            for path, allowed in values.items():
                for each in snapshot.of(kind):
                    if each.at(path) not in allowed:
                        yield f"{kind} {each.name} has {each.at(path)!r} at {path}"

    check.__name__ = name
    rule(check)


for _name, _rows in table("values").items():
    add_rule_of_values(_name, _rows)


@rule
def what_is_there_is_what_is_asked_for(snapshot: Snapshot) -> Iterable[str]:
    """Policies, with their values in values.json, forbid to publish with a password."""
    given = snapshot.given
    budgets = ["pushgrid-monthly"] if given["budgetAmount"] and given["budgetStartDate"] else []
    yield from differences("budget", snapshot.names("/budgets"), budgets)
    policies = snapshot.names("/basicPublishingCredentialsPolicies")
    yield from differences("policy", policies, ("ftp", "scm"))
    alerts = snapshot.names("/scheduledQueryRules") + snapshot.names("/metricAlerts")
    yield from differences("alert", alerts, {*table("monitor")["alerts"], "pushgrid-queue-backlog"})
    wanted = AZURE["how many"] | {"/virtualNetworks": int(given["vnetEnabled"])}
    yield from unequal({kind: len(snapshot.of(kind)) for kind in wanted}, wanted)


@rule
def a_private_network_closes_account_and_vault(snapshot: Snapshot) -> Iterable[str]:
    """Each service has an endpoint, and its name leads there by a zone linked to the network."""
    is_private = snapshot.given["vnetEnabled"]
    if (snapshot.one("Web/sites").at("properties.virtualNetworkSubnetId") is None) == is_private:
        yield "the app is in no network, or in one that is not there"
    groups = {
        each.id.split("/")[-3]: each.at("properties.privateDnsZoneConfigs.0.properties")
        for each in snapshot.of("/privateDnsZoneGroups")
    }
    ways = []
    for each in snapshot.of("/privateEndpoints"):
        to = each.at("properties.privateLinkServiceConnections.0.properties")
        zone = groups.get(each.name, {}).get("privateDnsZoneId")
        ways.append(f"{to['groupIds']} of {to['privateLinkServiceId']} by {zone}")
    private = AZURE["private"] if is_private else []
    zones = [each["zone"] for each in private]
    wanted = [f"['{e['service']}'] of {snapshot.ids[e['of']]} by {e['zone']}" for e in private]
    yield from differences("endpoint", ways, wanted)
    yield from differences("zone", snapshot.names("/privateDnsZones"), zones)
    links = (each.document["name"] for each in snapshot.of("/virtualNetworkLinks"))
    yield from differences("linked zone", (each.partition("/")[0] for each in links), zones)


@rule
def subnets_fit_into_the_network(snapshot: Snapshot) -> Iterable[str]:
    """Flex Consumption needs a /27 at least."""
    for network in snapshot.of("/virtualNetworks"):
        space = IPv4Network(network.at("properties.addressSpace.addressPrefixes.0"))
        subnets = [each["properties"] for each in network.at("properties.subnets")]
        app, endpoints = (IPv4Network(each["addressPrefix"]) for each in subnets)
        fit = app.subnet_of(space) and endpoints.subnet_of(space) and not app.overlaps(endpoints)
        if not fit or app.prefixlen > 27:
            yield f"{app} and {endpoints} do not fit into {space}, or are too small"


@rule
def bounds_are_azures_and_the_same_in_modules(deployment: Deployment) -> Iterable[str]:
    """Azure refuses what is beyond its own; a module would refuse what main.bicep takes."""
    yield from unequal(deployment.parameters["adminKey"]["metadata"], AZURE["generated"])
    for name, bounds in AZURE["bounds"].items():
        ours = deployment.parameters[name]
        for key, limits in bounds.items():
            allowed = limits if key == "allowedValues" else range(limits[0], limits[1] + 1)
            found = ours.get(key)
            if not {*(found if isinstance(found, list) else [found])} <= {*allowed}:
                yield f"{name} has a {key} of {found}, and Azure takes {limits}"
        inner = {key: each for key, each in ours.items() if key not in {"defaultValue", "metadata"}}
        for other in re.findall(rf'"{name}": ({{[^{{}}]*}})', json.dumps(deployment.modules)):
            if json.loads(other) != inner:
                yield f"a module declares {name} as {other}"


@rule
def all_instances_fit_into_the_quota_of_a_region(deployment: Deployment) -> Iterable[str]:
    """250 cores of 2,048 MB: three groups that scale (http, two queues), and two timers."""
    kinds = [each[0]["type"] for each in FUNCTIONS.values()]
    given = deployment.snapshots["default"].given
    most = given["maximumInstanceCount"] * (1 + kinds.count("queueTrigger"))
    if (most + kinds.count("timerTrigger")) * given["instanceMemoryMB"] / 2048 > 250:
        yield f"{most} instances are too many"


@rule
def names_are_what_azure_allows(deployment: Deployment) -> Iterable[str]:
    """The longest name of an environment as well."""
    for snapshot in deployment.snapshots.values():
        for each in snapshot.resources:
            shortest, longest, characters = AZURE["names"].get(each.type, (0, 0, ""))
            if not shortest <= len(each.name) <= longest or not re.fullmatch(characters, each.name):
                yield f"{each.type} can't be named {each.name}"
    most = deployment.parameters["environmentName"].get("maxLength")
    if most not in [len(each.given["environmentName"]) for each in deployment.snapshots.values()]:
        yield f"no snapshot has a name of {most} characters"


@rule
def every_rule_of_the_linter_is_an_error(deployment: Deployment) -> Iterable[str]:
    rules = deployment.linter["rules"].items()
    relaxed = {name: each for name, each in rules if each != {"level": "error"}}
    yield from unequal({**deployment.linter, "rules": relaxed}, AZURE["linter"])


@rule
def no_secret_is_shown(deployment: Deployment) -> Iterable[str]:
    """It is in the vault and in parameters that are not logged, and that have no default."""
    for place in (deployment.main, *deployment.modules.values()):
        secure = {n for n, each in place["parameters"].items() if each["type"].startswith("secure")}
        for name, each in place["parameters"].items():
            if (name in secure) != bool(SECRET_NAME.search(name)):
                yield f"{name} must be @secure()"
            if name in secure and "defaultValue" in each:
                yield f"{name} has a default, which anyone can read"
        # What a variable has is not committed.
        names = "|".join(("variables", *(rf"parameters\('{each}'" for each in secure)))
        for name, each in place["outputs"].items():
            if re.search(rf"{SECRET.pattern}|\b({names})", str(each.get("value"))):
                yield f"output {name} may show a secret: {each}"
    for snapshot in deployment.snapshots.values():
        found = [
            f"{each.name} {name}"
            for each in snapshot.resources
            for name, value in (each.at("properties") or {}).items()
            if SECRET.search(str(value))
        ]
        yield from differences("secret", found, AZURE["secrets"])
