"""Answers every request with 503 while the app's settings are invalid; nothing is stored."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from shared.arm import arm_json
from shared.clock import Clock
from shared.errors import InvalidSettings
from shared.events import publish_answers
from shared.http import HttpAnswer, HttpRequest

_RETRY_AFTER_SECONDS = "60"  # a person has to correct the settings


def public_error(error: InvalidSettings) -> InvalidSettings:
    """Return *error* as anybody may see it: names of settings, never values."""
    names = sorted({fault.target for fault in error.faults if fault.target})
    settings = f"Check {', '.join(names)}" if names else "Check its settings"
    return InvalidSettings(f"The app's settings are not valid. {settings}; the log says why.")


@dataclass(frozen=True, slots=True, kw_only=True)
class MisconfiguredApi:
    """Answers in ARM's form, for the management API, status and validation links."""

    error: InvalidSettings

    def run(self, request: HttpRequest) -> HttpAnswer:
        """Answer 503; a health request gets the health document."""
        error = public_error(self.error)
        if request.params.get("what", "").strip("/").lower() == "health":
            return arm_json.answer(503, {"status": "unhealthy", "reasons": [error.message]})
        found = arm_json.error_answer(error)
        return replace(found, headers={**found.headers, "Retry-After": _RETRY_AFTER_SECONDS})


@dataclass(frozen=True, slots=True, kw_only=True)
class MisconfiguredPublish:
    """Answers publishers in Event Grid's form; their clients retry."""

    error: InvalidSettings
    clock: Clock
    new_id: Callable[[], str]

    def run(self, request: HttpRequest) -> HttpAnswer:
        """Answer 503."""
        return publish_answers.error_answer(
            request, public_error(self.error), request_id=self.new_id(), now=self.clock.now()
        )
