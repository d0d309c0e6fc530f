"""`pushgrid explain`: forecasts an event's attempts, or shows which filter excludes it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, TextIO

import click

from cli.deployment import Deployment
from cli.failure import REFUSED, CommandFailed
from cli.option_types import NumberRange
from cli.options import prints_found
from cli.publish import Match, completed_events, matches_of
from cli.terminal import Found, printable
from shared.delivery.delivery_profile import DeliveryProfile, Feature
from shared.delivery.forecast import Forecast, forecast
from shared.delivery.policy import DeliveryTerms, default_terms
from shared.delivery.profiles import PROFILES
from shared.subscriptions.destination import EndpointType
from shared.subscriptions.subscription import DeadLetterDestination

_ANY_CONTAINER = DeadLetterDestination(container="")
_MINUTE = timedelta(minutes=1)


@click.command("explain")
@click.option(
    "--profile",
    type=click.Choice(list(PROFILES)),
    default="latest",
    show_default=True,
    help="Delivery profile.",
)
@click.option(
    "--endpoint",
    type=click.Choice([each.value for each in EndpointType]),
    default="webhook",
    show_default=True,
    help="Kind of endpoint; a storage queue is 'azure'.",
)
@click.option(
    "--answers",
    metavar="A,B,…",
    help="The endpoint's answers: status codes, timeout, refused, dns, tls, unsendable, no-token. "
    "The last repeats.",
)
@click.option("--ttl-minutes", type=int, metavar="N", help="Time to live; default: the profile's.")
@click.option("--max-attempts", type=int, metavar="N", help="Attempts; default: the profile's.")
@click.option("--dead-letter", is_flag=True, help="A dead-letter destination is configured.")
@click.option(
    "--response-seconds",
    type=NumberRange(0, 86400),  # a day is longer than any timeout
    default=0.0,
    metavar="N",
    show_default=True,
    help="Time that the endpoint takes to answer.",
)
@click.option(
    "--event",
    type=click.File("r", encoding="utf-8-sig"),
    metavar="FILE",
    help="Show instead which event subscriptions match the event in FILE; '-' is standard input.",
)
@click.option("--topic", "-t", help="Topic of the event, or NAMESPACE.TOPIC.")
@click.option("--subscription", "-s", help="Only this event subscription.")
@prints_found
def explain(
    deployment: Deployment,
    profile: str,
    answers: str | None,
    event: TextIO | None,
    topic: str | None,
    subscription: str | None,
    **given: Any,
) -> Found:
    """
    Forecast attempts, or show which filter excludes an event.

    With --answers, times count from publish, without jitter, and in JSON in seconds; no deployment
    is called.

    With --event and --topic, nothing is published, and the exit code is 1 if nothing matches.
    """
    if event:
        if answers or not topic:
            raise click.UsageError("--event needs --topic, and no --answers.")
        found = _read_matches(deployment, topic, event, subscription)
        lines = (
            "\n".join(line for each in found for line in _lines(each))
            or f"{topic} has no event subscription"
        )
        return Found(found, lines, 0 if any(each["matched"] for each in found) else REFUSED)
    if not answers:
        raise click.UsageError("Give --answers, or --event and --topic.")
    chosen = PROFILES[profile]
    try:
        expected = forecast(
            [each.strip() for each in answers.split(",")],
            _terms(chosen, given),
            timedelta(seconds=given["response_seconds"]),
        )
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    return Found(_document(chosen, expected), _table(chosen, expected))


def _terms(profile: DeliveryProfile, options: Mapping[str, Any]) -> DeliveryTerms:
    terms = default_terms(profile)
    if options["ttl_minutes"] is not None:
        _, least, most = (each // _MINUTE for each in profile.limits.time_to_live)
        if not least <= options["ttl_minutes"] <= most:
            allowed = f"{least}" if least == most else f"{least} to {most}"
            raise ValueError(f"--ttl-minutes: profile {profile.name} allows {allowed}")
        terms = replace(terms, time_to_live=options["ttl_minutes"] * _MINUTE)
    if options["max_attempts"] is not None:
        if profile.limits.attempts is None:
            raise ValueError(f"--max-attempts: profile {profile.name} does not limit attempts")
        _, fewest, most = profile.limits.attempts
        if not fewest <= options["max_attempts"] <= most:
            raise ValueError(f"--max-attempts: profile {profile.name} allows {fewest} to {most}")
        terms = replace(terms, max_attempts=options["max_attempts"])
    if options["dead_letter"] and Feature.DEAD_LETTERS not in profile.features:
        raise ValueError(f"--dead-letter: profile {profile.name} has no dead letters")
    return replace(
        terms,
        dead_letter=_ANY_CONTAINER if options["dead_letter"] else None,
        endpoint=EndpointType(options["endpoint"]),
    )


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


def _read_matches(
    deployment: Deployment, topic: str, file: TextIO, subscription: str | None
) -> Sequence[Match]:
    """Ask which event subscriptions the events in a file match, or only about the one named."""
    found = matches_of(deployment, topic, completed_events(deployment, topic, file))
    wanted = [each for each in found if subscription in {None, each["subscription"]}]
    if subscription and not wanted:
        names = ", ".join(each["subscription"] for each in found) or "none"
        raise CommandFailed(f"{topic} has no event subscription '{subscription}'; it has {names}")
    return wanted


def _lines(match: Match) -> Iterator[str]:
    name = match["subscription"]
    if match["matched"]:
        limits = match.get("limits")
        yield f"{name}: matches; it gets {limits['text']}" if limits else f"{name}: matches"
    else:
        yield f"{name}: no match: {printable(match['why'])}"
    for warning in match.get("warnings", ()):
        yield f"    warning: {printable(warning)}"
