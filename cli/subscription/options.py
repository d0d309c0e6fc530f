"""Defines the options that describe an event subscription; refusals name the option at fault."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import click

from cli.failure import CommandFailed
from cli.option_types import (
    CLOUD_EVENTS,
    CUSTOM_INPUT,
    DURATION,
    EVENT_GRID,
    FILTER_EXPRESSION,
    ISO_TIME,
    NAME_VALUE,
    QUEUE_TIME,
    SchemaName,
    WholeNumber,
    request_limit,
)
from cli.options import with_options
from cli.subscription.document import OWN_ATTRIBUTES, destination_of
from cli.subscription.filter_expression import HELP

FILTERS = "\b\n" + HELP.strip().replace("\n\n", "\n\n\b\n")  # below the options
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


def _event_types(_: click.Context, __: click.Parameter, given: Sequence[str]) -> Sequence[str]:
    if given == ("",):
        return given
    types = [each.strip() for part in given for each in part.split(",")]
    if not all(types):
        raise click.BadParameter("an event type is missing")
    return tuple(types)


describes_subscription = with_options(
    click.option("--endpoint", metavar="URL", help="Webhook that receives the events."),
    click.option("--queue", metavar="NAME", help="Storage queue that receives them, instead."),
    click.option(
        "--queue-account",
        metavar="ID",
        help="ARM id of the queue's storage account, if not the deployment's own.",
    ),
    click.option(
        "--queue-time-to-live",
        type=QUEUE_TIME,
        help="How long the queue keeps an event: 90m, 30d, forever.  [default: 7d]",
    ),
    click.option(
        "--event-types",
        multiple=True,
        metavar="A,B",
        callback=_event_types,
        help="Only events of these types.",
    ),
    click.option("--subject-begins-with", metavar="TEXT", help="Only these subjects."),
    click.option("--subject-ends-with", metavar="TEXT", help="Only these subjects."),
    click.option(
        "--case-sensitive/--no-case-sensitive",
        "is_case_sensitive",
        default=None,
        help="Whether subjects are compared exactly.",
    ),
    click.option(
        "--filter",
        "filters",
        type=FILTER_EXPRESSION,
        multiple=True,
        help="Only events for which this is true, such as 'data.total > 10'. All filters "
        "given must be.",
    ),
    click.option(
        "--max-attempts",
        type=WholeNumber(1, 30),
        metavar="N",
        help="Attempts, 1 to 30.",
    ),
    click.option("--time-to-live", type=DURATION, help="How long delivery is attempted: 90m, 6h."),
    click.option(
        "--dead-letter-container",
        metavar="NAME",
        help="Container for events that could not be delivered.",
    ),
    click.option(
        "--dead-letter-account",
        "account",
        metavar="ID",
        help="ARM id of the container's storage account, if not the deployment's own.",
    ),
    click.option("--batch", type=int, metavar="N", help="Events in one request, at most."),
    click.option("--batch-kilobytes", type=int, metavar="N", help="Preferred size of a request."),
    click.option(
        "--header",
        "headers",
        type=NAME_VALUE,
        multiple=True,
        help="Send this header with every request.",
    ),
    click.option(
        "--secret-header",
        "secret_headers",
        type=NAME_VALUE,
        multiple=True,
        help="Send this header with every request, and never show its value.",
    ),
    click.option(
        "--header-from",
        "event_headers",
        type=NAME_VALUE,
        multiple=True,
        help="Send a value of the event as a header, such as X-Tenant=data.tenant.",
    ),
    click.option(
        "--sign/--no-sign",
        default=None,
        help="Sign deliveries according to Standard Webhooks; prints the secret that is made.",
    ),
    click.option(
        "--signing-secret",
        metavar="SECRET",
        help="Sign deliveries with this secret: whsec_…, or two in quotes.",
    ),
    click.option(
        "--max-requests",
        type=request_limit(),
        help="Requests under way at a time, of all processes together, at most.",
    ),
    click.option(
        "--max-rate",
        type=request_limit("/s"),
        help="Requests a second, of all processes together, at most: such as 20/s.",
    ),
    click.option("--entra-tenant", metavar="ID", help="Tenant that protects the endpoint."),
    click.option(
        "--entra-application",
        metavar="ID",
        help="Application that the endpoint trusts.",
    ),
    click.option(
        "--schema",
        type=SchemaName(EVENT_GRID, CLOUD_EVENTS, CUSTOM_INPUT),
        help="Schema in which events are delivered.",
    ),
    click.option("--label", "labels", multiple=True, help="Add a label."),
    click.option(
        "--expires",
        type=ISO_TIME,
        help="When it ends: 2027-01-31T00:00:00Z.",
    ),
    click.option("--show-json", is_flag=True, help="Print the ARM document instead of sending it."),
)


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
