"""`python -m cli listen`: runs a subscriber that accepts the handshake and prints each push."""

from __future__ import annotations

import argparse
import threading
from typing import Any

from shared.events.literals import dumps, loads
from testbed.ending import end_on_signals
from testbed.subscriber import Push, Reply, consents, running_subscriber

_USUAL = frozenset({"host", "content-type", "content-length"})  # headers of every push


def add_to(commands: Any) -> None:
    """Add the command to the parser's sub-commands."""
    parser = commands.add_parser("listen", help="run a subscriber that prints what it receives")
    parser.add_argument(
        "--port", type=_port, default=9000, help="port to listen on, 0 for a free one (9000)"
    )
    parser.add_argument(
        "--answer", type=_status, default=200, help="status code to answer every push with (200)"
    )
    parser.add_argument("--json", action="store_true", help="print one line of JSON per push")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Listen until Ctrl-C; returns 1 if the port is not available."""
    end_on_signals()
    lock = threading.Lock()

    def answer(push: Push) -> int:
        with lock:
            print(_as_json(push) if options.json else _as_text(push, options.answer), flush=True)
        return int(options.answer)

    def consent(handshake: Push) -> Reply:
        if not options.json:
            with lock:
                print(f"{_subscription(handshake)}, handshake, accepted", flush=True)
        return consents(handshake)

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
    return _whole(text, 0, 65535, "a port (0 to 65535)")


def _status(text: str) -> int:
    return _whole(text, 200, 599, "a final status code (200 to 599)")


def _whole(text: str, least: int, most: int, what: str) -> int:
    if not text.isdecimal() or not least <= int(text) <= most:
        raise argparse.ArgumentTypeError(f"{text!r} is not {what}")
    return int(text)


def _as_json(push: Push) -> str:
    return dumps({"headers": dict(push.headers), "body": loads(push.body)})


def _as_text(push: Push, status: int) -> str:
    headers = push.headers
    attempt = int(headers.get("aeg-delivery-count", 0)) + 1
    title = f"{_subscription(push)}, attempt {attempt}, answered {status}"
    if output_id := headers.get("aeg-output-event-id"):  # a batch has none
        title += f" (aeg-output-event-id {output_id})"
    custom = [f"  {name}: {value}" for name, value in headers.items() if _is_custom(name)]
    return "\n".join([f"{title}:", *custom, dumps(loads(push.body), indent=2)])


def _subscription(push: Push) -> str:
    return push.headers.get("aeg-subscription-name", "?")


def _is_custom(header: str) -> bool:
    """Tell whether the subscription's delivery attributes added *header*."""
    return header not in _USUAL and not header.startswith(("aeg-", "webhook-"))
