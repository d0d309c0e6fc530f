"""Reads and writes ``deliveryAttributeMappings``: custom headers, and signing secrets."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from shared.arm.consent import with_each_version
from shared.arm.sections import Document, Section, raise_faults, root_section
from shared.errors import InvalidDocument
from shared.events.topic import InputSchema
from shared.subscriptions.event_values import key_fault
from shared.subscriptions.header_rules import header_name_fault, header_value_fault
from shared.subscriptions.request_limits import (
    A_SECOND,
    AT_ONCE,
    RequestLimits,
    is_limit,
    parse_limit,
)
from shared.subscriptions.signing import is_signature, parse_secrets, rotated, to_secret
from shared.subscriptions.subscription import DeliveryHeader, DynamicHeader, StaticHeader

MEMBER = "deliveryAttributeMappings"
MAX_HEADERS = 10
HIDDEN = "Hidden"  # shown instead of a secret value
GENERATED = "Generated"  # given instead of the secrets that sign deliveries: the deployment's own
_TYPES = ("Static", "Dynamic")
# Accepted beside the schema's own keys: envelope fields, and the names of the other schema.
_ALSO_KEYS = ("eventtime", "metadataversion", "source", "type", "time")
_SECRET = "secret"  # noqa: S105 - a member's name
_UNSIGNED = (
    "The deliveries of this event subscription are not signed. Sign them first: 'pushgrid "
    "subscription update NAME --topic TOPIC --sign', or the delivery attribute webhook-signature."
)


def parse_attributes(
    destination: Section, schema: InputSchema, known: Sequence[Document], new_key: Callable[[], str]
) -> list[dict[str, Any]]:
    """
    Read the mappings of a destination for events of *schema*; faults are added to *destination*.

    A secret whose value is ``Hidden`` keeps its value from the *known*, stored mappings. The
    mapping ``webhook-signature``, which is ours, has the secrets that sign deliveries; with the
    value ``Generated`` it keeps those that are known, or gets one made by *new_key*. The mappings
    ``webhook-max-requests`` and ``webhook-max-rate`` are ours, too.

    Source: "Set custom headers on delivered events" (2023-02-21).
    """
    stored: list[dict[str, Any]] = []
    names: set[str] = set()
    secrets = _secret_values(known)
    mappings = destination.sections(MEMBER)
    if len(mappings) > MAX_HEADERS:
        destination.refuse(MEMBER, f"There can be at most {MAX_HEADERS} custom delivery headers.")
    for mapping in mappings:
        name = mapping.required_text("name")
        if name is not None:
            if fault := _name_fault(name, names):
                mapping.refuse("name", fault)
            names.add(name.casefold())
        kind = mapping.required_choice("type", _TYPES)
        if kind is not None:
            secret = secrets.get((name or "").casefold())
            if is_ours(name):
                read = _parse_ours(mapping, kind, secret, new_key)
            elif kind == "Static":
                read = _parse_static(mapping.section("properties"), secret)
            else:
                read = _parse_dynamic(mapping.section("properties"), schema)
            stored.append({"name": name, "type": kind, "properties": read})
    return stored


def attribute_mappings(destination: Document) -> list[Document]:
    """Return the mappings of a stored destination, including secret values."""
    return list(destination["properties"].get(MEMBER, ()))


def render_attributes(stored: Sequence[Document]) -> list[dict[str, Any]]:
    """Write stored mappings for an ARM answer, with secret values hidden."""
    return [
        {**mapping, "properties": {**properties, "value": HIDDEN}}
        if (properties := mapping["properties"]).get("isSecret")
        else {**mapping}
        for mapping in stored
    ]


def to_headers(stored: Sequence[Document]) -> tuple[DeliveryHeader, ...]:
    return tuple(
        _to_header(mapping["name"], mapping["properties"])
        for mapping in stored
        if not is_ours(mapping["name"])
    )


def is_ours(name: object) -> bool:
    """Tell whether a mapping is no header, but says what Event Grid has no member for."""
    return is_signature(name) or is_limit(name)


def to_limits(stored: Sequence[Document]) -> RequestLimits:
    """Return the limits of requests in mappings; `ValueError`: they have another form."""
    given = {
        mapping["name"].casefold(): parse_limit(mapping["properties"]["value"])
        for mapping in stored
        if is_limit(mapping["name"])
    }
    return RequestLimits(given.get(AT_ONCE), given.get(A_SECOND))


def to_signing(stored: Sequence[Document]) -> tuple[str, ...]:
    """
    Return the secrets that sign deliveries, the newest first; empty: they are not signed.

    Raises:
        ValueError: they have another form.
    """
    for mapping in stored:
        if is_signature(mapping["name"]):
            return parse_secrets(mapping["properties"]["value"])
    return ()


def _name_fault(name: str, others: Collection[str]) -> str | None:
    if not is_ours(name) and (fault := header_name_fault(name)):
        return fault
    return f"The header {name} is set twice." if name.casefold() in others else None


def _to_header(name: str, properties: Document) -> DeliveryHeader:
    if "sourceField" in properties:
        return DynamicHeader(name=name, path=tuple(properties["sourceField"].split(".")))
    return StaticHeader(name=name, value=properties["value"], is_secret=properties["isSecret"])


def _secret_values(stored: Sequence[Document]) -> dict[str, str]:
    return {
        each["name"].casefold(): each["properties"]["value"]
        for each in stored
        if each["properties"].get("isSecret")
    }


def _parse_static(properties: Section, secret: str | None) -> dict[str, Any]:
    """Read a static header; *secret* is its stored value if that is secret."""
    value = properties.required_text("value")
    is_secret = properties.flag("isSecret") or False
    if is_secret and value == HIDDEN:
        value = _kept(properties, secret)
    if value is not None and (fault := header_value_fault(value)):
        properties.refuse("value", f"{properties.target('value')} {fault}.")
    return {"value": value, "isSecret": is_secret}


def _parse_ours(
    mapping: Section, kind: str, known: str | None, new_key: Callable[[], str]
) -> dict[str, Any]:
    if kind != "Static":
        mapping.refuse("type", f"{mapping.target('type')} must be Static: it is no header.")
    properties = mapping.section("properties")
    value, is_secret = properties.required_text("value"), is_signature(mapping.members.get("name"))
    if bool(properties.flag("isSecret")) is not is_secret:
        must = "true: the value is secret" if is_secret else "false: a limit is shown"
        properties.refuse("isSecret", f"{properties.target('isSecret')} must be {must}.")
    if is_secret and value == HIDDEN:
        value = _kept(properties, known)
    elif is_secret and value == GENERATED:
        value = known or to_secret(new_key())
    elif value is not None:
        try:
            value = " ".join(parse_secrets(value)) if is_secret else str(parse_limit(value))
        except ValueError as error:
            properties.refuse("value", f"{properties.target('value')} {error}.")
    return {"value": value, "isSecret": is_secret}


def _kept(properties: Section, secret: str | None) -> str | None:
    if secret is None:
        properties.refuse(
            "value",
            f"{properties.target('value')} is '{HIDDEN}', but no secret is stored for a header of "
            "this name: give its value.",
        )
    return secret


def _parse_dynamic(properties: Section, schema: InputSchema) -> dict[str, Any]:
    path = properties.required_text("sourceField")
    if path is not None and (fault := key_fault(path, schema, _ALSO_KEYS)):
        properties.refuse("sourceField", fault)
    return {"sourceField": path}


def parse_rotation(body: object) -> str | None:
    """Read the secret that a rotation is given; ``None``: the deployment makes one."""
    root = root_section(body)
    root.refuse_others(_SECRET)
    secret = root.text(_SECRET)
    if secret is not None:
        try:
            secret = rotated((), secret)
        except ValueError as error:
            root.refuse(_SECRET, f"{_SECRET} {error}.")
    raise_faults(root.faults)
    return secret


def with_new_secret(stored: Document, new: str) -> Document:
    """
    Return *stored* with the secret *new* before the newest that it has.

    The version that is in force while consent is awaited gets it, too.

    Raises:
        InvalidDocument: its deliveries are not signed, or it has that secret already.
    """
    if not to_signing(attribute_mappings(stored["properties"]["destination"])):
        raise InvalidDocument(_UNSIGNED)
    return with_each_version(stored, lambda properties: _with_new_secret(properties, new))


def _with_new_secret(properties: Document, new: str) -> Document:
    def changed(mapping: Document) -> Document:
        if not is_signature(mapping["name"]):
            return mapping
        try:
            value = rotated(to_signing([mapping]), new)
        except ValueError as error:
            raise InvalidDocument(f"{_SECRET} {error}.") from None
        return {**mapping, "properties": {**mapping["properties"], "value": value}}

    destination = properties["destination"]
    mappings = [changed(each) for each in attribute_mappings(destination)]
    if not mappings:
        return properties
    given = {**destination["properties"], MEMBER: mappings}
    return {**properties, "destination": {**destination, "properties": given}}
