"""A closed storage account is reached by private endpoints: all of them, with their names."""

from __future__ import annotations

import ipaddress
from typing import Any

from tools.bicepcheck.evaluation.deployment import Deployment
from tools.bicepcheck.evaluation.values import Deployed, Lined, Ref, leaves, plain
from tools.bicepcheck.problems import Report

_ACCOUNT = "Microsoft.Storage/storageAccounts"
_NETWORK = "Microsoft.Network/virtualNetworks"
_ENDPOINT = "Microsoft.Network/privateEndpoints"
_VAULT = "Microsoft.KeyVault/vaults"
_ZONE = "Microsoft.Network/privateDnsZones"
_SERVICES = ("blob", "queue", "table")
_DELEGATED = "Microsoft.App/environments"
_APP_PREFIX = 27  # at most, of a subnet that Flex Consumption takes addresses from


def check(deployment: Deployment, report: Report) -> None:
    """Check networks, endpoints and zones."""
    for network in deployment.of(_NETWORK):
        _addresses(network, report)
    for account in deployment.of(_ACCOUNT):
        if account.at("properties", "publicNetworkAccess") == "Disabled":
            _reached(account, deployment, report)
    for vault in deployment.of(_VAULT):
        _open_or_reached(vault, deployment, report)
    for site in deployment.of("Microsoft.Web/sites"):
        _joined(site, deployment, report)
    for group in deployment.of(f"{_ENDPOINT}/privateDnsZoneGroups"):
        _zone(group, report)


def _connections(endpoint: Deployed) -> list[Lined]:
    found = endpoint.at("properties", "privateLinkServiceConnections") or []
    return [one["properties"] for one in found if isinstance(one, Lined) and "properties" in one]


def _groups(endpoint: Deployed) -> list[Any]:
    return [group for one in _connections(endpoint) for group in one.get("groupIds") or []]


def _reached(account: Deployed, deployment: Deployment, report: Report) -> None:
    endpoints = deployment.of(_ENDPOINT)
    reached = {group for one in endpoints for group in _groups(one)}
    where = next(iter(endpoints), account)
    for service in _SERVICES:
        if service not in reached:
            message = f"the account is closed, and its {service} service has no private endpoint"
            report.add(where.file, where.line, "network", message)
        names = [plain(zone.name).split(".")[:2] for zone in deployment.of(_ZONE)]
        if ["privatelink", service] not in names:
            report.add(where.file, where.line, "network", f"no zone privatelink.{service}.…")
    linked = {id(link.parent) for link in deployment.of(f"{_ZONE}/virtualNetworkLinks")}
    for zone in deployment.of(_ZONE):
        if id(zone) not in linked:
            report.add(zone.file, zone.line, "network", "a zone that no network is linked to")
    for link in deployment.of(f"{_ZONE}/virtualNetworkLinks"):
        if link.at("properties", "registrationEnabled") is True:
            line = link.line_of("properties", "registrationEnabled")
            message = (
                "a network registers its machines in one zone at most, and in none of endpoints"
            )
            report.add(link.file, line, "network", message)
    grouped = {id(one.parent) for one in deployment.of(f"{_ENDPOINT}/privateDnsZoneGroups")}
    for endpoint in endpoints:
        for group in _groups(endpoint):
            if group not in {*_SERVICES, "file", "dfs", "web"}:
                report.add(
                    endpoint.file, endpoint.line, "network", f"storage has no service '{group}'"
                )
        if id(endpoint) not in grouped:
            report.add(endpoint.file, endpoint.line, "network", "an endpoint without a zone group")
    if not any(
        site.at("properties", "virtualNetworkSubnetId")
        for site in deployment.of("Microsoft.Web/sites")
    ):
        report.add(
            account.file,
            account.line,
            "network",
            "the account is closed, and the app in no network",
        )


def _open_or_reached(vault: Deployed, deployment: Deployment, report: Report) -> None:
    """A vault answers the app: on its public address, or by an endpoint of its own."""
    public = vault.at("properties", "publicNetworkAccess") in (None, "Enabled", "enabled")
    rules = vault.at("properties", "networkAcls")
    denied = isinstance(rules, Lined) and rules.get("defaultAction") == "Deny"
    allowed = isinstance(rules, Lined) and bool(
        rules.get("virtualNetworkRules") or rules.get("ipRules")
    )
    ends = any("vault" in _groups(endpoint) for endpoint in deployment.of(_ENDPOINT))
    if not ends and (not public or (denied and not allowed)):
        line = vault.line_of("properties", "publicNetworkAccess")
        report.add(vault.file, line, "network", "the vault is closed, and has no private endpoint")


def _zone(group: Deployed, report: Report) -> None:
    """An endpoint's zone is that of its own service."""
    services = _groups(group.parent) if group.parent else []
    for config in group.at("properties", "privateDnsZoneConfigs") or []:
        zone = (
            config.get("properties", {}).get("privateDnsZoneId")
            if isinstance(config, Lined)
            else None
        )
        if isinstance(zone, Ref) and services:
            name = plain(zone.of.name).split(".")
            if len(name) > 1 and name[1] not in services:
                message = f"an endpoint of {services[0]} with the zone of {name[1]}"
                report.add(group.file, group.line, "network", message)
    if group.parent and not any(isinstance(leaf, Ref) for leaf in leaves(group.body)):
        report.add(group.file, group.line, "network", "a zone group without a zone")


def _addresses(network: Deployed, report: Report) -> None:
    def problem(line: int, message: str) -> None:
        report.add(network.file, line, "network", message)

    line = network.line_of("properties", "addressSpace")
    spaces = []
    for text in network.at("properties", "addressSpace", "addressPrefixes") or []:
        if (found := _parsed(text)) is None and isinstance(text, str):
            problem(line, f"'{text}' is no range of addresses")
        elif found:
            spaces.append(found)
    taken: list[tuple[str, Any]] = []
    for subnet in network.at("properties", "subnets") or []:
        text = subnet.get("properties", {}).get("addressPrefix")
        name, found = plain(subnet.get("name")), _parsed(text)
        if found is None:
            if isinstance(text, str):
                problem(subnet.line, f"'{text}' is no range of addresses")
            continue
        if spaces and not any(found.subnet_of(space) for space in spaces):
            problem(subnet.line, f"the subnet '{name}' ({text}) lies outside the network")
        problem_with = next((other for other, range_ in taken if found.overlaps(range_)), None)
        if problem_with:
            problem(subnet.line, f"the subnets '{name}' and '{problem_with}' overlap")
        if found.prefixlen > 29:
            problem(subnet.line, f"the subnet '{name}' is smaller than Azure allows (/29)")
        taken.append((name, found))


def _parsed(text: Any) -> ipaddress.IPv4Network | None:
    try:
        return ipaddress.IPv4Network(text) if isinstance(text, str) else None
    except ValueError:
        return None


def _joined(site: Deployed, deployment: Deployment, report: Report) -> None:
    """The app's subnet is delegated to Flex Consumption, and holds nothing else."""
    subnet = site.at("properties", "virtualNetworkSubnetId")
    if not isinstance(subnet, Ref):
        return
    name, network = subnet.of.name, subnet.of.parent
    subnets = network.at("properties", "subnets") or [] if network else []
    for one in subnets:
        if isinstance(one, Lined) and one.get("name") == name and network:
            delegated = [
                entry.get("properties", {}).get("serviceName")
                for entry in one.get("properties", {}).get("delegations") or []
            ]
            if _DELEGATED not in delegated:
                message = f"the app's subnet '{plain(name)}' is not delegated to {_DELEGATED}"
                report.add(network.file, one.line, "network", message)
            range_ = _parsed(one.get("properties", {}).get("addressPrefix"))
            if range_ and range_.prefixlen > _APP_PREFIX:
                message = f"the app's subnet '{plain(name)}' is smaller than /{_APP_PREFIX}"
                report.add(network.file, one.line, "network", message)
    for endpoint in deployment.of(_ENDPOINT):
        there = endpoint.at("properties", "subnet", "id")
        if isinstance(there, Ref) and there.of is subnet.of:
            report.add(
                endpoint.file, endpoint.line, "network", "an endpoint in the app's own subnet"
            )
