"""Gives a stored subscription whose deliveries are signed another secret."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared.arm.consent import with_each_version
from shared.arm.delivery_attributes_codec import MEMBER, to_signing
from shared.arm.sections import document, raise_faults
from shared.errors import InvalidDocument
from shared.subscriptions.signing import is_signature, rotated

_SECRET = "secret"  # noqa: S105 - a member's name
_UNSIGNED = (
    "The deliveries of this event subscription are not signed: give its destination the delivery "
    "attribute webhook-signature first."
)

Document = Mapping[str, Any]


def parse_rotation(body: object) -> str | None:
    """
    Read the secret that a rotation is given; ``None``: the deployment makes one.

    Raises:
        InvalidDocument: it is no secret, or there are other members.
    """
    root = document(body)
    root.refuse_others(_SECRET)
    secret = root.text(_SECRET)
    if secret is not None:
        try:
            rotated((), secret)
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
    if not to_signing(_mappings(stored["properties"])):
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
    if not _mappings(properties):
        return properties
    given = {**destination["properties"], MEMBER: [changed(each) for each in _mappings(properties)]}
    return {**properties, "destination": {**destination, "properties": given}}


def _mappings(properties: Document) -> list[Document]:
    return list(properties["destination"]["properties"].get(MEMBER, ()))
