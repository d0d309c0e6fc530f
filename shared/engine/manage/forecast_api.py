"""Answers when a subscription's next event would be attempted, and the rule behind every time."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta

from shared.arm.arm_json import answer
from shared.arm.subscription_codec import to_subscription_in_force
from shared.delivery.forecast import forecast
from shared.engine.manage.call import Call, ManagePorts
from shared.engine.manage.subscriptions import Subscriptions
from shared.errors import InvalidDocument
from shared.http import HttpAnswer

_MOST_ANSWERS = 100
_LONGEST_ANSWER = 86400  # seconds: a day, longer than any timeout


def forecast_of(form: Subscriptions) -> Callable[[ManagePorts, Call], HttpAnswer]:
    """Return the handler for event subscriptions in one form."""

    def answer_forecast(ports: ManagePorts, call: Call) -> HttpAnswer:
        """Answer the course of an event with the subscription's own terms, in seconds."""
        stored = form.named(ports, call, form.topic(ports, call)).document
        terms = ports.terms.of(to_subscription_in_force(stored))
        try:
            expected = forecast(_answers(call), terms, _response_time(call))
        except ValueError as error:
            raise InvalidDocument(f"The forecast can't be made: {error}.") from None
        attempts = [
            {
                "number": each.number,
                "at": each.at.total_seconds(),
                "answer": each.answer,
                "outcome": each.outcome,
                "nextAt": _seconds(each.next_at),
                "why": each.why,
            }
            for each in expected.attempts
        ]
        end = {
            "state": expected.state,
            "reason": expected.reason,
            "why": expected.why,
            "at": expected.at.total_seconds(),
            "blobAt": _seconds(expected.blob_at),
        }
        profile = terms.profile
        found = {"profile": profile.name, "edition": profile.edition, "timeScale": terms.time_scale}
        return answer(200, {**found, "attempts": attempts, "end": end})

    return answer_forecast


def _answers(call: Call) -> list[str]:
    answers = [each.strip() for each in call.query.get("answers", "200").split(",")]
    if len(answers) > _MOST_ANSWERS:
        raise ValueError(f"there are more than {_MOST_ANSWERS} answers")
    return answers


def _response_time(call: Call) -> timedelta:
    with suppress(ValueError):
        seconds = float(call.query.get("responseseconds", "0"))
        if 0 <= seconds <= _LONGEST_ANSWER:
            return timedelta(seconds=seconds)
    raise ValueError(f"responseSeconds must be 0 to {_LONGEST_ANSWER}")


def _seconds(moment: timedelta | None) -> float | None:
    return None if moment is None else moment.total_seconds()
