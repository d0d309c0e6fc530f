"""`python -m cli listen`: a subscriber that accepts the handshake and prints what it gets."""

from __future__ import annotations

import argparse
import threading
from typing import Any

from shared.events.literals import dumps, loads
from testbed.ending import end_on_signals
from testbed.subscriber import Push, Reply, consents, running_subscriber

_USUAL = frozenset({"host", "content-type", "content-length"})  # of every push


def add_to(commands: Any) -> None:
    """Add the command to the parser's sub-commands."""
    parser = commands.add_parser("listen", help="a subscriber that prints what it gets")
    parser.add_argument("--port", type=_port, default=9000, help="to listen on (default: 9000)")
    parser.add_argument("--answer", type=_status, default=200, help="status (default: 200)")
    parser.add_argument("--json", action="store_true", help="a line of JSON for each push")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Listen until Ctrl-C."""
    end_on_signals()
    lock = threading.Lock()

    def answer(push: Push) -> int:
        with lock:
            print(_as_json(push) if options.json else _as_text(push, options.answer), flush=True)
        return int(options.answer)

    def consent(asked: Push) -> Reply:
        if not options.json:
            with lock:
                print(f"{_name(asked)}, handshake, accepted", flush=True)
        return consents(asked)

    try:
        with running_subscriber(answer, port=options.port, consent=consent) as subscriber:
            print(f"listening at {subscriber.url.removesuffix('hook')}", flush=True)
            threading.Event().wait()
    except KeyboardInterrupt:
        pass
    except OSError as error:
        print(f"listen: port {options.port}: {error.strerror}")
        return 1
    return 0


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:  # noqa: PLR2004 - the last port there is
        raise argparse.ArgumentTypeError(f"{text!r} is no port")
    return int(text)


def _status(text: str) -> int:
    if not text.isdecimal() or not 200 <= int(text) <= 599:  # noqa: PLR2004 - of final answers
        raise argparse.ArgumentTypeError(f"{text!r} is no status (200 to 599)")
    return int(text)


def _as_json(push: Push) -> str:
    return dumps({"headers": dict(push.headers), "body": loads(push.body)})


def _as_text(push: Push, answer: int) -> str:
    headers = push.headers
    attempt = int(headers.get("aeg-delivery-count", 0)) + 1
    title = f"{_name(push)}, attempt {attempt}, answered {answer}"
    if output_id := headers.get("aeg-output-event-id"):  # a batch has none
        title += f" (aeg-output-event-id {output_id})"
    own = [f"  {name}: {value}" for name, value in headers.items() if _is_own(name)]
    return "\n".join([f"{title}:", *own, dumps(loads(push.body), indent=2)])


def _name(push: Push) -> str:
    return push.headers.get("aeg-subscription-name", "?")


def _is_own(header: str) -> bool:
    """Say whether it is there because a subscription says so."""
    return header not in _USUAL and not header.startswith(("aeg-", "webhook-"))
