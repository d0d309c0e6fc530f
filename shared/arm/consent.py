"""Records in a stored subscription whether its endpoint has consented to deliveries."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import NamedTuple

from shared.arm.sections import Document
from shared.clock import timestamp
from shared.subscriptions.diagnosis import Reason
from shared.subscriptions.handshake import Granted

VALID_FOR = timedelta(minutes=10)  # five in documentation before 2024-09
_VALIDATION, _RATE = "validation", "allowedRate"
_ID = re.compile(r"([A-Za-z0-9-]{1,64})\.([A-Za-z0-9-]{1,64})\.([A-Za-z0-9_-]{1,64})", re.ASCII)


class Awaited(NamedTuple):
    """The validation link has to be opened in time."""

    until: datetime
    secret: str  # the last part of the link
    reason: Reason  # why the endpoint has not consented yet


Consent = Granted | Awaited


class Link(NamedTuple):
    """The parts of a validation link's id."""

    topic: str
    name: str
    secret: str

    def __str__(self) -> str:
        return f"{self.topic}.{self.name}.{self.secret}"


def parse_link(text: str) -> Link | None:
    """Parse the id of a validation link; ``None`` if it is malformed."""
    parts = _ID.fullmatch(text)
    return Link(*parts.groups()) if parts else None


def with_consent(wanted: Document, consent: Consent, before: Document | None) -> Document:
    """
    Return *wanted* as it is stored.

    While consent is awaited, the version that was in force *before* stays in force. Of the link's
    secret only a hash is stored.
    """
    if isinstance(consent, Granted):
        return _granted(wanted, consent.rate)
    kept = in_force(before) if before else None
    validation = {
        "until": timestamp(consent.until),
        "proof": _hash(consent.secret),
        "reason": str(consent.reason),
        "inForce": kept and {name: kept.get(name) for name in ("properties", _RATE)},
    }
    return {**wanted, _VALIDATION: validation}


def with_consent_granted(stored: Document, rate: int | None) -> Document:
    """Return *stored* with its awaited consent granted; the link is used up."""
    return _granted({name: stored[name] for name in stored if name != _VALIDATION}, rate)


def matches_secret(stored: Document, secret: str) -> bool:
    """Tell in constant time whether *secret* is that of the awaited consent."""
    expected = (stored.get(_VALIDATION) or {}).get("proof", "")
    return hmac.compare_digest(expected, _hash(secret))


def in_force(stored: Document) -> Document | None:
    """Return the version that deliveries use; ``None`` if no endpoint has consented yet."""
    validation = stored.get(_VALIDATION)
    if validation is None:
        return stored
    kept = validation["inForce"]
    return kept and {**{name: stored[name] for name in stored if name != _VALIDATION}, **kept}


def with_each_version(stored: Document, changed: Callable[[Document], Document]) -> Document:
    """Return *stored* with its properties *changed*, also those of the version in force."""
    changes = {"properties": changed(stored["properties"])}
    validation = stored.get(_VALIDATION)
    if validation and (kept := validation["inForce"]):
        kept = {**kept, "properties": changed(kept["properties"])}
        changes[_VALIDATION] = {**validation, "inForce": kept}
    return {**stored, **changes}


def allowed_rate(stored: Document) -> int | None:
    """Return how many requests a minute the endpoint allows; ``None``: no limit."""
    rate: int | None = stored.get(_RATE)
    return rate


def has_expired(stored: Document, now: datetime) -> bool:
    """Tell whether the time to consent has passed."""
    return now >= datetime.fromisoformat(stored[_VALIDATION]["until"])


def is_pending(stored: Document) -> bool:
    """Tell whether the version written last has no consent: it is awaited, or was in vain."""
    return _VALIDATION in stored


def pending_reason(stored: Document) -> object:
    """Return why the consent is pending; ``None``: an earlier version kept no reason."""
    return stored[_VALIDATION].get("reason")


def is_awaiting(stored: Document, now: datetime) -> bool:
    """Tell whether consent is awaited and can still be given."""
    return _VALIDATION in stored and not has_expired(stored, now)


def leaves_unchanged(
    stored: Document, wanted: Document, now: datetime, *, assumes_consent: bool
) -> bool:
    """Tell whether *stored*, replaced by *wanted*, stays as it is, with its consent."""
    kept = {name: stored[name] for name in stored if name not in (_VALIDATION, _RATE)}
    is_current = _VALIDATION not in stored or (is_awaiting(stored, now) and not assumes_consent)
    return kept == wanted and is_current


def with_provisioning_state(shown: Document, stored: Document, now: datetime) -> Document:
    """Return the answer *shown* with its ``provisioningState`` at the time *now*."""
    state = "Succeeded"
    if _VALIDATION in stored:
        state = "AwaitingManualAction" if is_awaiting(stored, now) else "Failed"
    return {**shown, "properties": {**shown["properties"], "provisioningState": state}}


def _granted(stored: Document, rate: int | None) -> Document:
    return {**stored, _RATE: rate} if rate else stored


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
