"""`pushgrid listen`: runs a subscriber that accepts the handshake and prints each push."""

from __future__ import annotations

import errno
import secrets
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from http import HTTPStatus
from typing import Any, NamedTuple

import click
import requests

from cli.deployment import Deployment, cause, subscription_path
from cli.failure import REFUSED, CommandFailed
from cli.local.known_locally import is_local
from cli.option_types import WholeNumber
from cli.options import calls_deployment
from cli.sending import send
from cli.subscription.document import SubscriptionOptions, subscription_document
from cli.terminal import print_json_text, printable_json, say
from shared.events.literals import dumps, loads
from testbed.ending import end_on_signals
from testbed.subscriber import Push, Reply, consents, running_subscriber

_FIRST_FINAL, _LAST = 200, 599  # status codes
_ACCEPTED = "200"
_BEYOND_TIMEOUT = 31.0  # seconds: an endpoint has 30
_MOST_SHOWN = 4000  # characters of a body
_OF_CONNECTION = frozenset({"host", "content-length", "connection"})
_USUAL = frozenset({"host", "content-type", "content-length", "user-agent"})  # of every push


@click.command("listen")
@click.option(
    "--port",
    type=WholeNumber(0, 65535),
    default=9000,
    show_default=True,
    help="Port to listen on; 0 takes a free one.",
)
@click.option(
    "--answers",
    "--answer",
    metavar="A,B,…",
    default=_ACCEPTED,
    show_default=True,
    help="Answers to each subscription's pushes, in order: status codes, timeout (no answer for "
    "31 s) or reset (the connection is cut). The last repeats.",
)
@click.option("--json", "as_json", is_flag=True, help="Print only one line of JSON for each push.")
@click.option(
    "--topic",
    "-t",
    metavar="TOPIC",
    help="Subscribe to this topic, or NAMESPACE.TOPIC, until the command ends.",
)
@click.option(
    "--forward-to",
    metavar="URL",
    help="Forward each push to this URL, and answer with its status.",
)
@calls_deployment
def listen(
    deployment: Deployment,
    port: int,
    answers: str,
    as_json: bool,
    topic: str | None,
    forward_to: str | None,
) -> int:
    """
    Run a subscriber that prints each push.

    Without --json it prints only the beginning of a long body. It accepts the handshake. Ctrl-C
    stops it. With --topic it makes an event subscription of its own, which a deployment on this
    machine can reach, and deletes it.
    """
    script = _script(answers, forward_to)
    end_on_signals()
    lock = threading.Lock()

    def reply_to(push: Push) -> int:
        # Not under the lock: pushes may come at once.
        forwarded = _forward(push, forward_to)
        with lock:
            reply = forwarded or script.next(_subscription(push))
            if as_json:
                print_json_text(dumps({"headers": dict(push.headers), "body": _body(push)}))
            else:
                say(_as_text(push, reply))
        return reply.perform()

    def tell(text: str) -> None:
        if text and not as_json:
            with lock:
                say(text)

    def consent(handshake: Push) -> Reply:
        # The handshake of CloudEvents names no subscription.
        name = _subscription(handshake) if handshake.body else "CloudEvents"
        tell(f"{name}, handshake, accepted")
        return consents(handshake)

    def take_notice(notice: Push) -> None:
        tell(f"{_subscription(notice)}, deleted: it sends no more events")

    with ExitStack() as stack, suppress(KeyboardInterrupt):
        running = running_subscriber(reply_to, port, consent, take_notice)
        try:
            subscriber = stack.enter_context(running)
        except OSError as error:
            is_taken = error.errno == errno.EADDRINUSE
            why = "is in use: choose another with --port" if is_taken else f": {error.strerror}"
            raise CommandFailed(f"port {port} {why}", REFUSED) from None
        url = subscriber.url.removesuffix("hook")
        say(f"listening at {url}", err=as_json)
        name = stack.enter_context(_subscribed(deployment, topic, url))
        tell(f"subscribed to {topic} as {name}, until this command ends" if name else "")
        threading.Event().wait()
    return 0


@contextmanager
def _subscribed(deployment: Deployment, topic: str | None, url: str) -> Iterator[str | None]:
    """
    Subscribe *url* to a topic, if any, until the block ends; yield the subscription's name.

    Raises:
        CommandFailed: the deployment refuses, or does not reach this machine.
    """
    if topic is None:
        yield None
        return
    name = f"listen-{secrets.token_hex(4)}"
    path = subscription_path(topic, name)
    try:
        document = subscription_document(topic, SubscriptionOptions(endpoint=url))
        deployment.put(path, document)
    except CommandFailed as error:
        if error.status == HTTPStatus.BAD_REQUEST and not is_local(deployment.url):
            raise CommandFailed(
                f"{deployment.url} can't reach {url} on this machine: use a tunnel, and "
                f"'pushgrid subscription create' with its address ({error.message})",
                REFUSED,
            ) from None
        raise
    try:
        yield name
    finally:
        try:
            deployment.delete(path)
        except CommandFailed as error:
            say(f"pushgrid: event subscription {name} of {topic} stays: {error.message}", err=True)


def _forward(push: Push, url: str | None) -> _Scripted | None:
    """Pass a push on, if there is a *url*; return the answer to it."""
    if url is None:
        return None
    headers = {name: each for name, each in push.headers.items() if name not in _OF_CONNECTION}
    try:
        # A push has no key of ours, and came over http.
        answer = send(
            "POST", url, allows_http=True, data=push.body, headers=headers, timeout=_BEYOND_TIMEOUT
        )
    except requests.Timeout:
        return _Scripted("timeout", "")
    except requests.RequestException as error:
        return _Scripted("502", f"{url}: {cause(error)}")
    return _Scripted(str(answer.status_code), answer.text[:_MOST_SHOWN])


class Script:
    """The answers for each subscription, in order; the last repeats."""

    def __init__(self, answers: str) -> None:
        self._answers = [_answer(each.strip()) for each in answers.split(",")]
        self._pushes: Counter[str] = Counter()

    def next(self, subscription: str) -> _Scripted:
        """Return the answer to the next push of a subscription."""
        number = self._pushes[subscription]
        self._pushes[subscription] += 1
        return self._answers[min(number, len(self._answers) - 1)]


def _script(answers: str, forward_to: str | None) -> Script:
    if forward_to and answers != _ACCEPTED:
        raise click.UsageError("--forward-to: the endpoint answers, not --answer or --answers.")
    if forward_to and not forward_to.lower().startswith(("http://", "https://")):
        raise click.UsageError("--forward-to must begin with http:// or https://.")
    return Script(answers)


class _Scripted(NamedTuple):
    """An answer of the script, as the user has written it, or of whoever it was forwarded to."""

    text: str
    body: str = ""

    def perform(self) -> int:
        """Return the status, after the wait of a timeout; raise to cut the connection."""
        if self.text == "timeout":
            time.sleep(_BEYOND_TIMEOUT)
            return 200
        if self.text == "reset":
            raise ConnectionResetError
        return int(self.text)


def _answer(text: str) -> _Scripted:
    is_status = text.isdecimal() and _FIRST_FINAL <= int(text) <= _LAST
    if not is_status and text not in {"timeout", "reset"}:
        raise click.UsageError(
            f"--answers: {text!r} is not a final status code (200 to 599), timeout or reset"
        )
    return _Scripted(text)


def _as_text(push: Push, reply: _Scripted) -> str:
    headers = push.headers
    attempt = int(headers.get("aeg-delivery-count", 0)) + 1
    title = f"{_subscription(push)}, attempt {attempt}, answered {reply.text}"
    if output_id := headers.get("aeg-output-event-id"):  # a batch has none
        title += f" (aeg-output-event-id {output_id})"
    said = [f"  {line}" for line in reply.body.splitlines()]
    custom = [f"  {name}: {value}" for name, value in headers.items() if _is_custom(name)]
    return "\n".join([f"{title}:", *said, *custom, printable_json(_beginning(_body(push)))])


def _beginning(body: Any) -> str:
    text = dumps(body, indent=2)
    if len(text) <= _MOST_SHOWN:
        return text
    return f"{text[:_MOST_SHOWN]}\n… {len(text) - _MOST_SHOWN:,} more characters: see --json"


def _body(push: Push) -> Any:
    """Return what was pushed; what is not JSON is shown as text."""
    try:
        return loads(push.body)
    except (ValueError, RecursionError):
        return push.body.decode(errors="replace")


def _subscription(push: Push) -> str:
    return push.headers.get("aeg-subscription-name", "?")


def _is_custom(header: str) -> bool:
    """Tell whether the subscription's delivery attributes added *header*."""
    return header not in _USUAL and not header.startswith(("aeg-", "webhook-"))
