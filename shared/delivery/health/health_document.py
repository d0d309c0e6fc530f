"""Writes endpoint health as a document of its table, and reads it again."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from shared.clock import moment_of
from shared.delivery.furthest import Bounds
from shared.delivery.health.endpoint_health import Health, Hold, bounded_health
from shared.delivery.outcome import Outcome


def document_of(health: Health) -> Mapping[str, Any]:
    """Write health as JSON members; times are ISO 8601."""
    hold = health.hold
    return {
        "endpoint": health.endpoint,
        "heldUntil": _text(hold.until) if hold else None,
        "hold": _hold(hold) if hold else None,
        "releasedAt": _text(health.released_at),
        "failures": health.failures,
        "countedFrom": _text(health.counted_from),
    }


def health_of(document: Mapping[str, Any], bounds: Bounds) -> Health:
    """
    Read health from a document, with no time beyond its *bounds*.

    Raises:
        ValueError, LookupError, TypeError, AttributeError: the document has another form.
    """
    hold = document["hold"]
    found = Health(
        endpoint=str(document["endpoint"]),
        hold=_hold_of(hold, moment_of(document["heldUntil"])) if hold else None,
        released_at=_time(document["releasedAt"]),
        failures=int(document["failures"]),
        counted_from=_time(document["countedFrom"]),
    )
    return bounded_health(found, bounds)


def _hold(hold: Hold) -> Mapping[str, Any]:
    return {
        "since": _text(hold.extended_at),
        "beganAt": _text(hold.first_failed_at),
        "sentAt": _text(hold.sent_at),
        "why": hold.why,
        "cause": hold.cause,
        "probation": hold.probation,
        "probationUntil": _text(hold.probation_until),
        "delays": hold.delays,
        "probeUntil": _text(hold.probe_until),
        "turn": hold.probe_changes,
    }


def _hold_of(wire: Mapping[str, Any], until: datetime) -> Hold:
    probation = wire["probation"]
    return Hold(
        extended_at=moment_of(wire["since"]),
        until=until,
        why=str(wire["why"]),
        sent_at=moment_of(wire["sentAt"]),
        cause=str(wire["cause"]),
        probation=Outcome(probation) if probation else None,
        probation_until=_time(wire["probationUntil"]),
        delays=int(wire["delays"]),
        probe_until=_time(wire["probeUntil"]),
        probe_changes=int(wire["turn"]),
        first_failed_at=_time(wire["beganAt"]),
    )


def _text(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment else None


def _time(text: str | None) -> datetime | None:
    return moment_of(text) if text else None
