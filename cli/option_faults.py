"""Tells a refusal of a document in the words of the options that it was made of."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from cli.failure import CommandFailed
from cli.subscription_document import OWN_ATTRIBUTES, destination_of

# By the member at fault, in lower case; what follows a comma is the unit of the document.
_OPTIONS = {
    "endpointurl": "--endpoint",
    "azureactivedirectorytenantid": "--entra-tenant",
    "azureactivedirectoryapplicationidoruri": "--entra-application",
    "maxeventsperbatch": "--batch",
    "preferredbatchsizeinkilobytes": "--batch-kilobytes",
    "queuename": "--queue",
    "queuemessagetimetoliveinseconds": "--queue-time-to-live",
    "includedeventtypes": "--event-types",
    "advancedfilters": "--filter",
    "filters": "--filter",
    "maxdeliveryattempts": "--max-attempts",
    "maxdeliverycount": "--max-attempts",
    "eventtimetoliveinminutes": "--time-to-live, in minutes,",
    "eventtimetolive": "--time-to-live",
    "blobcontainername": "--dead-letter-container",
    "expirationtimeutc": "--expires",
    "eventdeliveryschema": "--schema",
    "labels": "--label",
}
_ATTRIBUTES = "deliveryattributemappings"
_MEMBER = re.compile(r"(\w+)(?:\[(\d+)\])?")


@contextmanager
def told_by_options(body: Mapping[str, Any]) -> Iterator[None]:
    """Let a refusal of *body*, the document of an event subscription, name the options at fault."""
    try:
        yield
    except CommandFailed as refused:
        message = refused.message
        for fault in refused.faults:
            target = fault.target or ""
            if option := _option(target, body):
                message = message.replace(fault.message, _told(fault.message, target, option))
        raise CommandFailed(message, refused.code, refused.status, refused.faults) from None


def _told(message: str, target: str, option: str) -> str:
    for member in (target, target.rpartition(".")[2]):
        if message.startswith(f"{member} "):
            return f"{option}{message.removeprefix(member)}"
    return f"{option.partition(',')[0]}: {message}"


def _option(target: str, body: Mapping[str, Any]) -> str | None:
    """Return the option that a document's member at *target*, a path, was made of."""
    members = _MEMBER.findall(target)
    for name, number in reversed(members):
        if name.lower() == _ATTRIBUTES and number:
            given = destination_of(body.get("properties") or body)["properties"][name]
            return _option_of_attribute(given[int(number)])
        if name.lower() == "resourceid":
            return "--dead-letter-account" if "deadLetter" in target else "--queue-account"
        if option := _OPTIONS.get(name.lower()):
            return option
    return None


def _option_of_attribute(attribute: Mapping[str, Any]) -> str:
    if option := OWN_ATTRIBUTES.get(attribute["name"].lower()):
        return option
    if attribute["type"] == "Dynamic":
        return "--header-from"
    return "--secret-header" if attribute["properties"].get("isSecret") else "--header"
