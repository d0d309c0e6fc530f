"""`pushgrid subscription pause`, `resume`, `release`, `test` and `rotate`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click

from cli.deployment import Deployment, subscription_path
from cli.failure import REFUSED
from cli.options import names_subscription, prints_found
from cli.output import moment
from cli.status import hold_text
from cli.terminal import Found, printable

_SUMMARIES = {
    "pause": "Pause an event subscription; its events wait.\n\nTheir time to live keeps running: "
    "an event that expires meanwhile is dead-lettered or dropped.",
    "resume": "End a pause; waiting events are delivered at a limited rate.",
    "release": "End an automatic hold now.",
}


def _action(action: str, summary: str) -> click.Command:
    @click.command(action, help=summary)
    @names_subscription
    @prints_found
    def act(deployment: Deployment, topic: str, name: str) -> Found:
        done = deployment.post(f"{subscription_path(topic, name)}/{action}")
        hold = hold_text(done)
        return Found(
            done, f"{name} of {topic}: {done['message']}" + (f"\n  {hold}" if hold else "")
        )

    return act


@click.command("test")
@names_subscription
@prints_found
def test(deployment: Deployment, topic: str, name: str) -> Found:
    """
    Send the endpoint a test event now, and show the result.

    The event has the type Pushgrid.TestEvent, and counts nowhere. The exit code is 1 if the
    endpoint does not accept it.
    """
    found = deployment.post(f"{subscription_path(topic, name)}/test")
    return Found(found, "\n".join(lines_of_test(found)), 0 if found["succeeded"] else REFUSED)


@click.command("rotate")
@names_subscription
@click.option(
    "--secret", metavar="SECRET", help="New secret (whsec_…); the default is a generated one."
)
@prints_found
def rotate_secret(deployment: Deployment, topic: str, name: str, secret: str | None) -> Found:
    """
    Sign deliveries with a new secret as well.

    The previous one stays valid until the next rotation. The new one is printed once.
    """
    body = None if secret is None else {"secret": secret}
    found = deployment.post(f"{subscription_path(topic, name)}/rotateSecret", body)
    return Found(found, f"{name} of {topic}: {found['message']}\n  secret  {found['secret']}")


ACTIONS = [*(_action(*each) for each in _SUMMARIES.items()), test, rotate_secret]


def lines_of_test(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield what came of a test, line by line; what the endpoint says is made printable."""
    request, said, failure = found["request"], found["answer"], found["failure"]
    yield f"{request['method']} {request['url']}"
    yield from _message(request)
    yield ""
    if said:
        yield f"{said['status']} ({found['outcome']}) after {found['seconds']} s"
        yield from _message(said)
    else:
        detail = printable(failure["detail"])
        yield f"no answer after {found['seconds']} s: {failure['reason']} ({detail})"
    peer = found["peer"] or {}
    if address := peer.get("address"):
        yield f"address: {address}"
    if certificate := peer.get("certificate"):
        names = printable(", ".join(certificate["names"])) or "nobody"
        match = "" if certificate["matchesHost"] else "; it is not for this host"
        yield f"certificate: {printable(certificate['subject'])}, for {names}{match}"
        yield f"  issued by {printable(certificate['issuer'])}"
        yield f"  valid until {moment(certificate['validUntil'])} (UTC)"


def _message(message: Mapping[str, Any]) -> Iterator[str]:
    for name, value in message["headers"].items():
        yield f"  {printable(name)}: {printable(value)}"
    for line in message["body"].splitlines():
        yield f"  {printable(line)}"
