"""Whether an endpoint has consented, as a stored subscription says it: before, nothing is sent."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from shared.clock import timestamp

VALID_FOR = timedelta(minutes=10)  # five in editions of the documentation before 2024-09
_VALIDATION, _RATE = "validation", "allowedRate"
_ID = re.compile(r"([A-Za-z0-9-]{1,64})\.([A-Za-z0-9-]{1,64})\.([A-Za-z0-9_-]{1,64})", re.ASCII)

Document = Mapping[str, Any]


class Granted(NamedTuple):
    """The endpoint wants events, at most *rate* requests a minute; ``None``: as many as come."""

    rate: int | None = None


class Awaited(NamedTuple):
    """Somebody has to open the validation link before *until*; *secret* is the link's last part."""

    until: datetime
    secret: str


Consent = Granted | Awaited


class Link(NamedTuple):
    """What the path of a validation link says."""

    topic: str
    name: str
    secret: str

    def __str__(self) -> str:
        return f"{self.topic}.{self.name}.{self.secret}"


def parse_link(text: str) -> Link | None:
    """Read the id of a validation link; ``None`` if it can't be one."""
    parts = _ID.fullmatch(text)
    return Link(*parts.groups()) if parts else None


def with_consent(wanted: Document, consent: Consent, before: Document | None) -> Document:
    """
    Return *wanted* as it is stored.

    While the endpoint's consent is awaited, what was in force *before* stays so; the link's secret
    is kept as a hash alone.
    """
    if isinstance(consent, Granted):
        return _granted(wanted, consent.rate)
    kept = in_force(before) if before else None
    validation = {
        "until": timestamp(consent.until),
        "proof": _hash(consent.secret),
        "inForce": kept and {name: kept.get(name) for name in ("properties", _RATE)},
    }
    return {**wanted, _VALIDATION: validation}


def with_proof_accepted(stored: Document, rate: int | None) -> Document:
    """Return *stored* with the consent that was awaited: it works once."""
    return _granted({name: stored[name] for name in stored if name != _VALIDATION}, rate)


def is_proof(stored: Document, secret: str) -> bool:
    """Tell in constant time whether *secret* is what the consent is awaited by."""
    expected = (stored.get(_VALIDATION) or {}).get("proof", "")
    return hmac.compare_digest(expected, _hash(secret))


def in_force(stored: Document) -> Document | None:
    """Return what delivering goes by; ``None`` while no endpoint of it has ever consented."""
    validation = stored.get(_VALIDATION)
    if validation is None:
        return stored
    kept = validation["inForce"]
    return kept and {**{name: stored[name] for name in stored if name != _VALIDATION}, **kept}


def allowed_rate(stored: Document) -> int | None:
    """Return how many requests a minute the endpoint has granted."""
    rate: int | None = stored.get(_RATE)
    return rate


def has_lapsed(stored: Document, now: datetime) -> bool:
    """Tell whether the time is over in which the consent was awaited."""
    return now >= datetime.fromisoformat(stored[_VALIDATION]["until"])


def is_awaiting(stored: Document, now: datetime) -> bool:
    """Tell whether somebody may still consent."""
    return _VALIDATION in stored and not has_lapsed(stored, now)


def with_provisioning_state(shown: Document, stored: Document, now: datetime) -> Document:
    """
    Return what is *shown* of a subscription with its ``provisioningState``.

    That a consent has not come in time needs nobody to notice: the clock tells.
    """
    state = "Succeeded"
    if _VALIDATION in stored:
        state = "AwaitingManualAction" if is_awaiting(stored, now) else "Failed"
    return {**shown, "properties": {**shown["properties"], "provisioningState": state}}


def _granted(stored: Document, rate: int | None) -> Document:
    return {**stored, _RATE: rate} if rate else stored


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
