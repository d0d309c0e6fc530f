"""Reads the network rules of topics and namespaces: public access, IP rules, TLS version."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from typing import Any

from shared.arm.deployment_capabilities import DeploymentCapabilities
from shared.arm.not_included import PRIVATE
from shared.arm.sections import TLS_VERSIONS, Document, Section
from shared.events.topic import Network

MAX_RULES = 128
_RULES = "inboundIpRules"


def parse_network_rules(section: Section, deployment: DeploymentCapabilities) -> dict[str, Any]:
    """Read the network rules; faults are added to *section*."""
    disabled = f"publicNetworkAccess 'Disabled' is not supported. {PRIVATE.sentence}"
    section.choice("publicNetworkAccess", ("Enabled",), {"Disabled": disabled})
    stored: dict[str, Any] = {"publicNetworkAccess": "Enabled"}
    if rules := _parse_rules(section):
        if not deployment.has_client_ip_header:
            message = f"{section.target(_RULES)} needs the app's setting PUSHGRID_CLIENT_IP_HEADER."
            section.refuse(_RULES, message)
        stored[_RULES] = rules
    if tls := section.choice("minimumTlsVersionAllowed", TLS_VERSIONS):
        stored["minimumTlsVersionAllowed"] = tls
    return stored


def to_networks(stored: Document) -> tuple[Network, ...]:
    """Turn stored IP rules into the networks that may publish; empty means all."""
    return tuple(
        ipaddress.ip_network(rule["ipMask"], strict=False) for rule in stored.get(_RULES, ())
    )


def _parse_rules(section: Section) -> Sequence[Mapping[str, str]]:
    rules = section.sections(_RULES)
    if len(rules) > MAX_RULES:
        section.refuse(_RULES, f"There can be at most {MAX_RULES} {_RULES}.")
    stored = []
    for rule in rules:
        mask = rule.required_text("ipMask")
        if mask is not None and not _is_network(mask):
            target = rule.target("ipMask")
            rule.refuse("ipMask", f"{target} must be an IP address or a range in CIDR notation.")
        rule.choice("action", ("Allow",))
        stored.append({"ipMask": mask or "", "action": "Allow"})
    return stored


def _is_network(mask: str) -> bool:
    try:
        ipaddress.ip_network(mask, strict=False)
    except ValueError:
        return False
    return "%" not in mask  # a zone names an interface of one machine
