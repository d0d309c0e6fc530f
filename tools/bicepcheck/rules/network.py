"""Rules about networks: address ranges, private endpoints, their zones, and the app's subnet."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import Any

from tools.bicepcheck.evaluation.evaluated_folder import EvaluatedFolder
from tools.bicepcheck.evaluation.values import Deployed, Input, Located, Ref, leaves, shown
from tools.bicepcheck.problems import Problem
from tools.bicepcheck.rules import azure
from tools.bicepcheck.rules.names_in_code import App

_SERVICES = ("blob", "queue", "table")
_OWNERS = {
    azure.STORAGE: frozenset({*_SERVICES, "file", "dfs", "web"}),
    azure.VAULT: frozenset({"vault"}),
}
"""What private endpoints lead to, and the services there."""
_ZONES = {"vault": "vaultcore"}
"""The zone of a service, where it has another name."""
_FLEX_CONSUMPTION = "Microsoft.App/environments"
_MAX_APP_PREFIX = 27  # Flex Consumption takes an address for each instance
_MAX_PREFIX = 29


def check(deployment: EvaluatedFolder, _app: App) -> Iterator[Problem]:
    """Check networks, endpoints and zones."""
    for network in deployment.of(azure.NETWORK):
        yield from _addresses(network)
    for account in deployment.of(azure.STORAGE):
        if account.at("properties", "publicNetworkAccess") == "Disabled":
            yield from _private_account(account, deployment)
    for vault in deployment.of(azure.VAULT):
        yield from _vault(vault, deployment)
    for site in deployment.of(azure.SITE):
        yield from _app_subnet(site, deployment)
    for group in deployment.of(azure.ZONE_GROUP):
        yield from _zone_group(group)
    for endpoint in deployment.of(azure.ENDPOINT):
        yield from _endpoint(endpoint)


def _endpoint(endpoint: Deployed) -> Iterator[Problem]:
    """An endpoint leads to a service of a storage account or of a vault."""
    path = ("properties", "privateLinkServiceConnections")
    for connection in endpoint.items(*path):
        properties = connection.get("properties", {})
        owner = properties.get("privateLinkServiceId")
        if owner is None or isinstance(owner, Input):
            continue
        if not (isinstance(owner, Ref) and owner.path == ("id",) and owner.of.type in _OWNERS):
            message = "privateLinkServiceId must be the id of a storage account or of a vault"
            yield endpoint.problem("network", message, *path)
            continue
        for service in properties.get("groupIds") or []:
            if service not in _OWNERS[owner.of.type]:
                message = f"a {owner.of.type} has no service '{service}'"
                yield endpoint.problem("network", message, *path)


def _services(endpoint: Deployed) -> list[Any]:
    """Return the services that a private endpoint leads to."""
    connections = endpoint.items("properties", "privateLinkServiceConnections")
    return [
        group for one in connections for group in one.get("properties", {}).get("groupIds") or []
    ]


def _private_account(account: Deployed, deployment: EvaluatedFolder) -> Iterator[Problem]:
    """Without public access, every service has an endpoint, and its name a zone."""
    endpoints, zones = deployment.of(azure.ENDPOINT), deployment.of(azure.ZONE)
    links = deployment.of(azure.ZONE_LINK)
    reached = {service for one in endpoints for service in _services(one)}
    where = next(iter(endpoints), account)
    names = [shown(zone.name).split(".")[:2] for zone in zones]
    for service in _SERVICES:
        if service not in reached:
            message = f"the account has no public access; give its {service} service an endpoint"
            yield where.problem("network", message)
        if ["privatelink", service] not in names:
            yield where.problem(
                "network", f"the zone privatelink.{service}.… is missing; create it"
            )
    linked = {id(link.parent) for link in links}
    for zone in zones:
        if id(zone) not in linked:
            yield zone.problem("network", "the zone is linked to no network; link it")
    path = ("properties", "registrationEnabled")
    for link in links:
        if link.at(*path) is True:
            message = "a zone of private endpoints must not register machines; set this to false"
            yield link.problem("network", message, *path)
    grouped = {id(one.parent) for one in deployment.of(azure.ZONE_GROUP)}
    for endpoint in endpoints:
        if id(endpoint) not in grouped:
            yield endpoint.problem("network", "the endpoint has no zone group; add one")
    sites = deployment.of(azure.SITE)
    if not any(site.at("properties", "virtualNetworkSubnetId") for site in sites):
        message = "the account has no public access; put the app into a network"
        yield account.problem("network", message)


def _vault(vault: Deployed, deployment: EvaluatedFolder) -> Iterator[Problem]:
    """A vault has public access or an endpoint."""
    path = ("properties", "publicNetworkAccess")
    public = vault.at(*path) in {None, "Enabled", "enabled"}
    rules = vault.at("properties", "networkAcls") or {}
    denied = isinstance(rules, Located) and rules.get("defaultAction") == "Deny"
    allowed = denied and (rules.get("virtualNetworkRules") or rules.get("ipRules"))
    has_endpoint = any("vault" in _services(one) for one in deployment.of(azure.ENDPOINT))
    if not has_endpoint and (not public or (denied and not allowed)):
        message = "the vault has neither public access nor a private endpoint; add one"
        yield vault.problem("network", message, *path)


def _zone_group(group: Deployed) -> Iterator[Problem]:
    """The zone of an endpoint is that of its service."""
    services = _services(group.parent) if group.parent else []
    zones = [_ZONES.get(service, service) for service in services]
    for config in group.items("properties", "privateDnsZoneConfigs"):
        zone = config.get("properties", {}).get("privateDnsZoneId")
        name = shown(zone.of.name).split(".") if isinstance(zone, Ref) else []
        if zones and len(name) > 1 and name[1] not in zones:
            message = f"an endpoint of {services[0]} needs the zone of {zones[0]}, not {name[1]}"
            yield group.problem("network", message)
    if group.parent and not any(isinstance(leaf, Ref) for leaf in leaves(group.body)):
        yield group.problem("network", "the zone group has no zone; add one")


def _addresses(network: Deployed) -> Iterator[Problem]:
    path = ("properties", "addressSpace")
    spaces, taken = [], dict[str, ipaddress.IPv4Network]()
    for text in network.at(*path, "addressPrefixes") or []:
        if found := _range(text):
            spaces.append(found)
        elif isinstance(text, str):
            yield network.problem("network", f"'{text}' is not an address range", *path)
    for subnet in network.items("properties", "subnets"):
        text, name = subnet.get("properties", {}).get("addressPrefix"), shown(subnet.get("name"))
        if not isinstance(text, str):
            continue
        for message in _subnet(name, text, spaces, taken):
            yield network.problem("network", message, line=subnet.line)
        if found := _range(text):
            taken[name] = found


def _subnet(
    name: str,
    text: str,
    spaces: list[ipaddress.IPv4Network],
    taken: dict[str, ipaddress.IPv4Network],
) -> Iterator[str]:
    """Yield what is wrong with a subnet; *taken*: the ranges of the other ones."""
    found = _range(text)
    if found is None:
        yield f"'{text}' is not an address range"
        return
    if spaces and not any(found.subnet_of(space) for space in spaces):
        yield f"the subnet '{name}' ({text}) is outside the network"
    for other, range_ in taken.items():
        if found.overlaps(range_):
            yield f"the subnets '{name}' and '{other}' overlap"
    if found.prefixlen > _MAX_PREFIX:
        yield f"the subnet '{name}' is smaller than /{_MAX_PREFIX}, the smallest that Azure allows"


def _range(text: Any) -> ipaddress.IPv4Network | None:
    try:
        return ipaddress.IPv4Network(text) if isinstance(text, str) else None
    except ValueError:
        return None


def _app_subnet(site: Deployed, deployment: EvaluatedFolder) -> Iterator[Problem]:
    """The app's subnet is delegated to Flex Consumption, and has no private endpoint."""
    subnet = site.at("properties", "virtualNetworkSubnetId")
    if not isinstance(subnet, Ref):
        return
    network, name = subnet.of.parent, shown(subnet.of.name)
    for one in network.items("properties", "subnets") if network else []:
        if not network or one.get("name") != subnet.of.name:
            continue
        properties = one.get("properties", {})
        delegations = [x.get("properties", {}) for x in properties.get("delegations") or []]
        range_, messages = _range(properties.get("addressPrefix")), []
        if _FLEX_CONSUMPTION not in [delegation.get("serviceName") for delegation in delegations]:
            messages.append(f"the app's subnet '{name}' must be delegated to {_FLEX_CONSUMPTION}")
        if range_ and range_.prefixlen > _MAX_APP_PREFIX:
            messages.append(f"the app's subnet '{name}' must be at least a /{_MAX_APP_PREFIX}")
        for message in messages:
            yield network.problem("network", message, line=one.line)
    for endpoint in deployment.of(azure.ENDPOINT):
        there = endpoint.at("properties", "subnet", "id")
        if isinstance(there, Ref) and there.of is subnet.of:
            message = "a private endpoint must not be in the app's subnet; use another"
            yield endpoint.problem("network", message)
