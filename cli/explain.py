"""`python -m cli explain`: prints when an event is attempted, and the rule behind every time."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from datetime import timedelta
from typing import Any

from shared.delivery.delivery_profile import DeliveryProfile, EndpointType, Feature
from shared.delivery.forecast import Forecast, forecast
from shared.delivery.policy import DeliveryTerms, default_terms
from shared.delivery.profiles import PROFILES
from shared.subscriptions.subscription import DeadLetterDestination

_ANY_CONTAINER = DeadLetterDestination(container="")
_MINUTE = timedelta(minutes=1)
_LONGEST_ANSWER = 86400  # seconds: a day, longer than any timeout


def add_to(commands: Any) -> None:
    """Add the command to the parser's sub-commands."""
    parser = commands.add_parser(
        "explain",
        help="when an event is attempted, and the rule behind every time",
        description="When an event is attempted, and the rule behind every time. Times count from"
        " publish, without jitter.",
    )
    parser.add_argument(
        "--profile", choices=list(PROFILES), default="latest", help="delivery profile (latest)"
    )
    parser.add_argument(
        "--endpoint",
        choices=[each.value for each in EndpointType],
        default="webhook",
        help="kind of endpoint (webhook)",
    )
    parser.add_argument(
        "--answers",
        required=True,
        metavar="A,B,…",
        help="the endpoint's answers: status codes, timeout, refused, dns, tls, unsendable, "
        "no-token; the last repeats",
    )
    parser.add_argument(
        "--ttl-minutes", type=int, metavar="N", help="time to live (default: the profile's)"
    )
    parser.add_argument(
        "--max-attempts", type=int, metavar="N", help="attempts in all (default: the profile's)"
    )
    parser.add_argument(
        "--dead-letter", action="store_true", help="a dead-letter destination is configured"
    )
    parser.add_argument(
        "--response-seconds",
        type=float,
        default=0.0,
        metavar="N",
        help="time that the endpoint takes to answer (0)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON; times in seconds")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the attempt table; returns 2 for invalid arguments."""
    try:
        profile = PROFILES[options.profile]
        expected = forecast(
            [each.strip() for each in options.answers.split(",")],
            _terms(profile, options),
            timedelta(seconds=_answer_seconds(options.response_seconds)),
        )
    except ValueError as error:
        print(f"python -m cli explain: {error}", file=sys.stderr)
        return 2
    print(json.dumps(_document(profile, expected)) if options.json else _table(profile, expected))
    return 0


def _terms(profile: DeliveryProfile, options: argparse.Namespace) -> DeliveryTerms:
    terms = default_terms(profile)
    if options.ttl_minutes is not None:
        _, least, most = (each // _MINUTE for each in profile.limits.time_to_live)
        if not least <= options.ttl_minutes <= most:
            allowed = f"{least}" if least == most else f"{least} to {most}"
            raise ValueError(f"--ttl-minutes: profile {profile.name} allows {allowed}")
        terms = replace(terms, time_to_live=options.ttl_minutes * _MINUTE)
    if options.max_attempts is not None:
        if profile.limits.attempts is None:
            raise ValueError(f"--max-attempts: profile {profile.name} does not limit attempts")
        _, fewest, most = profile.limits.attempts
        if not fewest <= options.max_attempts <= most:
            raise ValueError(f"--max-attempts: profile {profile.name} allows {fewest} to {most}")
        terms = replace(terms, max_attempts=options.max_attempts)
    if options.dead_letter and Feature.DEAD_LETTERS not in profile.features:
        raise ValueError(f"--dead-letter: profile {profile.name} has no dead letters")
    return replace(
        terms,
        dead_letter=_ANY_CONTAINER if options.dead_letter else None,
        endpoint=EndpointType(options.endpoint),
    )


def _answer_seconds(seconds: float) -> float:
    if not 0 <= seconds <= _LONGEST_ANSWER:
        raise ValueError(f"--response-seconds: must be 0 to {_LONGEST_ANSWER}")
    return seconds


def _seconds(moment: timedelta | None) -> float | None:
    return None if moment is None else moment.total_seconds()


def _document(profile: DeliveryProfile, expected: Forecast) -> dict[str, Any]:
    return {
        "profile": profile.name,
        "attempts": [
            {
                "number": each.number,
                "at": _seconds(each.at),
                "answer": each.answer,
                "outcome": each.outcome,
                "next_at": _seconds(each.next_at),
                "why": each.why,
            }
            for each in expected.attempts
        ],
        "end": {
            "state": expected.state,
            "reason": expected.reason,
            "at": _seconds(expected.at),
            "blob_at": _seconds(expected.blob_at),
        },
    }


def _table(profile: DeliveryProfile, expected: Forecast) -> str:
    lines = [f"Profile {profile.name}: {profile.edition}", ""]
    lines.append(f"{'#':>3}  {'at':>12}  {'answer':<8} {'outcome':<16} {'next at':>12}  because of")
    lines += [
        f"{each.number:>3}  {_clock(each.at):>12}  {each.answer:<8} {each.outcome:<16} "
        f"{_clock(each.next_at):>12}  {each.why}"
        for each in expected.attempts
    ]
    reason = f": {expected.reason} ({expected.why})" if expected.reason else ""
    lines += ["", f"{_clock(expected.at)}  {expected.state}{reason}"]
    if expected.blob_at is not None:
        lines.append(f"{_clock(expected.blob_at)}  its blob is due")
    return "\n".join(lines)


def _clock(moment: timedelta | None) -> str:
    """Format a time since publish as 34:46:40, with milliseconds if it has any."""
    if moment is None:
        return "-"
    minutes, rest = divmod(moment, _MINUTE)
    parts = f".{rest.microseconds // 1000:03}".removesuffix(".000")
    return f"{minutes // 60}:{minutes % 60:02}:{rest.seconds:02}{parts}"
