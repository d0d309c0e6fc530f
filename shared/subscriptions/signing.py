"""
Signs requests to an endpoint with secrets that it shares.

Source: Standard Webhooks 1.0.0, "Webhook signatures" and "Signature scheme" (symmetric, ``v1``).
"""

from __future__ import annotations

import hashlib
import hmac
import re
from base64 import b64decode, b64encode
from binascii import Error
from collections.abc import Sequence
from datetime import datetime

from shared.http import OutboundRequest

SIGNATURE = "webhook-signature"  # in ARM documents a delivery attribute, whose value is the secrets
MOST_SECRETS = 2  # the one that receivers move to, and the one before
PREFIX = "whsec_"
_SHORTEST, _LONGEST = 24, 64  # bytes of a secret
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}", re.ASCII)


def to_secret(key: str) -> str:
    """Return a secret in its written form; *key* is Base64 of its 24 to 64 bytes."""
    return PREFIX + key


def is_signature(name: object) -> bool:
    """Tell whether a delivery attribute is the one that holds secrets."""
    return isinstance(name, str) and name.casefold() == SIGNATURE


def parse_secrets(text: str) -> tuple[str, ...]:
    """
    Return the secrets in *text*, the newest first.

    Raises:
        ValueError: what is wrong with it, without quoting it.
    """
    secrets = tuple(text.split(" "))
    if not all(map(_is_secret, secrets)):
        raise ValueError(
            f"must be a secret, or {MOST_SECRETS} with a space between them; each is '{PREFIX}' "
            f"and {_SHORTEST} to {_LONGEST} bytes in Base64"
        )
    if len(secrets) > MOST_SECRETS:
        raise ValueError(f"must have at most {MOST_SECRETS} secrets")
    if len({b64decode(each.removeprefix(PREFIX)) for each in secrets}) < len(secrets):
        raise ValueError("must not have the same secret twice")
    return secrets


def rotated(secrets: Sequence[str], new: str) -> str:
    """
    Return the text of *new* before the newest of *secrets*, so that receivers can move to it.

    Raises:
        ValueError: what is wrong with *new*, without quoting it.
    """
    if len(parse_secrets(new)) > 1:
        raise ValueError("must be one secret: the one before it is kept")
    text = " ".join((new, *secrets[: MOST_SECRETS - 1]))
    parse_secrets(text)
    return text


def sign(
    request: OutboundRequest, secrets: Sequence[str], message_id: str, at: datetime
) -> OutboundRequest:
    """Return *request* with the headers of a message that is sent *at*: a signature a secret."""
    seconds = str(int(at.timestamp()))
    signed = b"%b.%b.%b" % (message_id.encode(), seconds.encode(), request.body)
    signatures = (_signature(each, signed) for each in secrets)
    headers = {
        "webhook-id": message_id,
        "webhook-timestamp": seconds,
        SIGNATURE: " ".join(signatures),
    }
    return request._replace(headers={**request.headers, **headers})


def _signature(secret: str, signed: bytes) -> str:
    key = b64decode(secret.removeprefix(PREFIX))
    return f"v1,{b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()}"


def _is_secret(text: str) -> bool:
    encoded = text.removeprefix(PREFIX)
    if encoded == text or not _BASE64.fullmatch(encoded):
        return False
    try:
        return _SHORTEST <= len(b64decode(encoded, validate=True)) <= _LONGEST
    except Error:
        return False
