"""`pushgrid listen`: runs a subscriber that accepts the handshake and prints each push."""

from __future__ import annotations

import threading
import time
from collections import Counter
from contextlib import ExitStack, suppress
from typing import Any, NamedTuple

import click

from cli.failure import REFUSED, CommandFailed
from cli.terminal import print_json_text, printable_json, say
from shared.events.literals import dumps, loads
from testbed.ending import end_on_signals
from testbed.subscriber import Push, Reply, consents, running_subscriber

_FIRST_FINAL, _LAST = 200, 599  # status codes
_BEYOND_TIMEOUT = 31.0  # seconds: an endpoint has 30
_MOST_SHOWN = 4000  # characters of a body
_USUAL = frozenset({"host", "content-type", "content-length", "user-agent"})  # of every push


@click.command("listen")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=9000,
    show_default=True,
    help="Port to listen on; 0 takes a free one.",
)
@click.option(
    "--answers",
    metavar="A,B,…",
    help="What to answer each subscription's pushes with, in order: status codes, timeout (no "
    "answer for 31 s) or reset (the connection is cut). The last repeats. The default is 200.",
)
@click.option("--answer", metavar="A", help="The same, for a single answer.")
@click.option("--json", "as_json", is_flag=True, help="Print only one line of JSON for each push.")
def listen(port: int, answers: str | None, answer: str | None, as_json: bool) -> int:
    """
    Run a subscriber that prints each push.

    Without --json it prints only the beginning of a long body. It accepts the handshake. Ctrl-C
    stops it.
    """
    script = _script(answers, answer)
    end_on_signals()
    lock = threading.Lock()

    def reply_to(push: Push) -> int:
        with lock:
            reply = script.next(_subscription(push))
            if as_json:
                print_json_text(dumps({"headers": dict(push.headers), "body": _body(push)}))
            else:
                say(_as_text(push, reply))
        return reply.perform()

    def tell(text: str) -> None:
        if not as_json:
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
            raise CommandFailed(f"port {port}: {error.strerror}", REFUSED) from None
        say(f"listening at {subscriber.url.removesuffix('hook')}", err=as_json)
        threading.Event().wait()
    return 0


class Script:
    """The answers for each subscription, in order; the last repeats."""

    def __init__(self, answers: str, option: str = "--answers") -> None:
        self._answers = [_answer(each.strip(), option) for each in answers.split(",")]
        self._pushes: Counter[str] = Counter()

    def next(self, subscription: str) -> _Scripted:
        """Return the answer to the next push of a subscription."""
        number = self._pushes[subscription]
        self._pushes[subscription] += 1
        return self._answers[min(number, len(self._answers) - 1)]


def _script(answers: str | None, answer: str | None) -> Script:
    if answer is None:
        return Script("200" if answers is None else answers)
    if answers is not None:
        raise click.UsageError("--answer and --answers exclude each other")
    return Script(answer, "--answer")


class _Scripted(NamedTuple):
    """An answer of the script, as the user has written it."""

    text: str

    def perform(self) -> int:
        """Return the status, after the wait of a timeout; raise to cut the connection."""
        if self.text == "timeout":
            time.sleep(_BEYOND_TIMEOUT)
            return 200
        if self.text == "reset":
            raise ConnectionResetError
        return int(self.text)


def _answer(text: str, option: str) -> _Scripted:
    is_status = text.isdecimal() and _FIRST_FINAL <= int(text) <= _LAST
    if not is_status and text not in {"timeout", "reset"}:
        raise click.UsageError(
            f"{option}: {text!r} is not a final status code (200 to 599), timeout or reset"
        )
    return _Scripted(text)


def _as_text(push: Push, reply: _Scripted) -> str:
    headers = push.headers
    attempt = int(headers.get("aeg-delivery-count", 0)) + 1
    title = f"{_subscription(push)}, attempt {attempt}, answered {reply.text}"
    if output_id := headers.get("aeg-output-event-id"):  # a batch has none
        title += f" (aeg-output-event-id {output_id})"
    custom = [f"  {name}: {value}" for name, value in headers.items() if _is_custom(name)]
    return "\n".join([f"{title}:", *custom, printable_json(_beginning(_body(push)))])


def _beginning(body: Any) -> str:
    text = dumps(body, indent=2)
    if len(text) <= _MOST_SHOWN:
        return text
    return f"{text[:_MOST_SHOWN]}\n… {len(text) - _MOST_SHOWN:,} more characters: see --json"


def _body(push: Push) -> Any:
    """Return what was pushed; what is no JSON is shown as a text."""
    try:
        return loads(push.body)
    except (ValueError, RecursionError):
        return push.body.decode(errors="replace")


def _subscription(push: Push) -> str:
    return push.headers.get("aeg-subscription-name", "?")


def _is_custom(header: str) -> bool:
    """Tell whether the subscription's delivery attributes added *header*."""
    return header not in _USUAL and not header.startswith(("aeg-", "webhook-"))
