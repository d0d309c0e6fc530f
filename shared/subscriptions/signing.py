"""
Signs requests to an endpoint with secrets that it shares.

Source: Standard Webhooks 1.0.0, "Webhook signatures" and "Signature scheme" (symmetric, ``v1``).
"""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64decode, b64encode
from collections.abc import Sequence
from datetime import datetime

from shared.events.base64_text import base64_fault
from shared.http import OutboundRequest
from shared.text_faults import TextFaults, text_fault

SIGNATURE = "webhook-signature"  # in ARM documents a delivery attribute, whose value is the secrets
MOST_SECRETS = 2  # the one that receivers move to, and the one before
PREFIX = "whsec_"
_SHORTEST, _LONGEST = 24, 64  # bytes of a secret
# What is wrong with a text of secrets, and with one of them: the first pattern that matches says.
_FAULTS_OF_TEXT: TextFaults = (
    (r"\Z", f"is empty: give '{PREFIX}' and {_SHORTEST} to {_LONGEST} bytes in Base64"),
    (r".*[\"'`]", "has quotation marks: leave them out"),
    (
        r".*[\r\n\t]",
        "has a line break or a tab inside: write it in one line ('openssl rand -base64 48' does)",
    ),
    (r" |.* (?: |\Z)", "has a space too many: only one, between two secrets, is allowed"),
    (r"(?!v1a?,).*[,;]", "has a comma or semicolon: write a space between two secrets"),
)
_FAULTS_OF_ONE: TextFaults = (
    (rf"v1a?,{PREFIX}", f"begins with 'v1,': leave that out, a secret begins with '{PREFIX}'"),
    (
        r"v1a?,",
        f"begins with 'v1,', so it is a signature: give the secret that makes it, '{PREFIX}…'",
    ),
    (
        r"wh[sp]k_",
        f"is a key for signatures of the kind v1a, which are not made: give a secret, '{PREFIX}…'",
    ),
    (rf"(?!{PREFIX})(?i:{PREFIX})", f"must begin with '{PREFIX}' in small letters"),
    (rf"(?!{PREFIX})", f"must begin with '{PREFIX}': write that before the Base64 of the secret"),
    (rf"{PREFIX}\Z", f"has nothing after '{PREFIX}': the Base64 of the secret is missing"),
    (rf"{PREFIX}.*{PREFIX}", "has another secret inside: write a space between two secrets"),
)


def to_secret(key: str) -> str:
    """Return a secret in its written form; *key* is Base64 of its 24 to 64 bytes."""
    return PREFIX + key


def is_signature(name: object) -> bool:
    """Tell whether a delivery attribute is the one that holds secrets."""
    return isinstance(name, str) and name.casefold() == SIGNATURE


def parse_secrets(text: str) -> tuple[str, ...]:
    """
    Return the secrets in *text*, the newest first; a line break at its end is cut.

    Raises:
        ValueError: what is wrong with it and what to do, without quoting it; a verb comes first.
    """
    text = text.rstrip("\r\n")
    if fault := text_fault(_FAULTS_OF_TEXT, text):
        raise ValueError(fault)
    secrets = tuple(text.split(" "))
    if len(secrets) > MOST_SECRETS:
        raise ValueError(f"must have at most {MOST_SECRETS} secrets")
    for number, each in enumerate(secrets, 1):
        if fault := _fault(each):
            which = f"is wrong in secret {number} of {len(secrets)}, which " * (len(secrets) > 1)
            raise ValueError(f"{which}{fault}")
    if len({b64decode(each.removeprefix(PREFIX)) for each in secrets}) < len(secrets):
        raise ValueError("must not have the same secret twice")
    return secrets


def rotated(secrets: Sequence[str], new: str) -> str:
    """
    Return the text of *new* before the newest of *secrets*, so that receivers can move to it.

    Raises:
        ValueError: what is wrong with *new*, without quoting it.
    """
    given = parse_secrets(new)
    if len(given) > 1:
        raise ValueError("must be one secret: the one before it is kept")
    return " ".join(parse_secrets(" ".join((*given, *secrets[: MOST_SECRETS - 1]))))


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


def _fault(secret: str) -> str | None:
    """Return what is wrong with one secret; ``None`` if nothing is."""
    if fault := text_fault(_FAULTS_OF_ONE, secret):
        return fault
    encoded = secret.removeprefix(PREFIX)
    if fault := base64_fault(encoded):
        return fault
    size = len(b64decode(encoded))
    if not _SHORTEST <= size <= _LONGEST:
        return f"has {size} bytes in Base64: there must be {_SHORTEST} to {_LONGEST}"
    return None
