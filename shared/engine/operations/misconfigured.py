"""Answers every request with 503 while the app's settings are invalid; nothing is stored."""

from __future__ import annotations

from dataclasses import replace

from shared.arm import arm_json
from shared.errors import InvalidSettings
from shared.events import publish_http
from shared.http import HttpAnswer, HttpRequest

_RETRY_AFTER_SECONDS = "60"  # a person has to correct the settings


def public_error(error: InvalidSettings) -> InvalidSettings:
    """Return *error* as anybody may see it: names of settings, never values."""
    names = sorted({fault.target for fault in error.faults if fault.target})
    settings = f"Check {', '.join(names)}" if names else "Check its settings"
    return InvalidSettings(f"The app's settings are not valid. {settings}; the log says why.")


def api_answer(request: HttpRequest, fault: InvalidSettings) -> HttpAnswer:
    """Answer in ARM's form; a health request gets the health document."""
    error = public_error(fault)
    if request.params.get("what", "").strip("/").lower() == "health":
        return arm_json.answer(503, {"status": "unhealthy", "reasons": [error.message]})
    found = arm_json.error_answer(error)
    return replace(found, headers={**found.headers, "Retry-After": _RETRY_AFTER_SECONDS})


def publish_answer(request: HttpRequest, fault: InvalidSettings, request_id: str) -> HttpAnswer:
    """Answer publishers in Event Grid's form; their clients retry."""
    error = public_error(fault)
    return publish_http.error_answer(request, error, request_id)
