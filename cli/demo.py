"""`python -m cli demo`: the main job on real parts, told as a story."""

from __future__ import annotations

import argparse
import json
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from devhost.azurite import ACCOUNT, Azurite, running_azurite
from devhost.errors import HostError
from devhost.process import running_host
from shared.events.literals import dumps, loads
from testbed.arm import Arm, dead_letter_destination
from testbed.ending import end_on_signals
from testbed.host_settings import host_settings
from testbed.subscriber import Push, Subscriber, answers, running_subscriber

if TYPE_CHECKING:
    from azure.storage.blob import ContainerClient

TIME_SCALE = 20
TOPIC = "orders"
CONTAINER = "deadletters-demo"
_STORY_SECONDS = 50.0


def add_to(commands: Any) -> None:
    """Add the command to the parser's sub-commands."""
    parser = commands.add_parser("demo", help="the main job on real parts, told as a story")
    parser.add_argument("--once", action="store_true", help="end when the story is told")
    parser.add_argument("--port", type=int, default=0, help="of the host (default: a free one)")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Tell the story; returns 0 if every step of it was seen."""
    end_on_signals()
    try:
        with ExitStack() as stack:
            return _tell(options, stack)
    except HostError as error:
        print(f"demo: {error}")
        return 1
    except KeyboardInterrupt:
        print("\nThe demo has ended.")
        return 130 if options.once else 0


@dataclass(slots=True, kw_only=True)
class _Teller:
    """Prints what happens, with the seconds since the story began; from any thread."""

    began: float = field(default_factory=time.monotonic)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def say(self, text: str) -> None:
        with self.lock:
            print(f"{time.monotonic() - self.began:6.1f} s  {text}", flush=True)

    def on_line(self, line: str) -> None:
        """Tell what the host logs of its attempts."""
        start = line.find('{"event":"')
        if start < 0:
            return
        try:
            entry = json.loads(line[start:])
        except ValueError:
            return
        if entry["event"] == "delivery.attempted":
            self.say(_attempt(entry))
        elif entry["event"] == "event.published":
            self.say(
                f"pushgrid     stored {entry['events']} event(s) as {entry['messages']} queue "
                f"message(s), one a subscription, then answered 200"
            )


def _attempt(entry: dict[str, Any]) -> str:
    what = f"{entry['subscription']:<12} attempt {entry['attempt']}: {entry.get('status')}"
    if entry["decision"] == "retry":
        next_at = entry["next_attempt_at"][11:21]
        return f"{what} {entry['outcome']}; next at {next_at}, because of {entry['why']}"
    return f"{what} {entry['outcome']}; no more attempts ({entry['why']}): {entry['reason']}"


def _tell(options: argparse.Namespace, stack: ExitStack) -> int:
    print("Starting storage (Azurite) and the Functions host …", flush=True)
    azurite = stack.enter_context(running_azurite())
    teller = _Teller()
    settings = host_settings(azurite, PUSHGRID_TIME_SCALE=str(TIME_SCALE))
    host = stack.enter_context(
        running_host(settings, options=("--port", str(options.port)), on_line=teller.on_line)
    )
    print(
        f"Running at {host.url}. Waits are {TIME_SCALE} times shorter than Event Grid's: 30 s take "
        f"{30 / TIME_SCALE:g} s.\n",
        flush=True,
    )
    teller.began = time.monotonic()
    container = _container(azurite)
    container.create_container()

    def listening(name: str, *statuses: int) -> Subscriber:
        answer = answers(*statuses)

        def tell(push: Push) -> int:
            status = answer(push)
            kind = push.events[0]["eventType"]
            teller.say(f"{name:<12} received {kind}, answers {status}")
            return status

        return stack.enter_context(running_subscriber(tell))

    arm = Arm(host.url)
    arm.create_topic(TOPIC)
    teller.say(f"you          created the topic '{TOPIC}'")
    subscribers = {
        "healthy": listening("healthy", 200),
        "recovering": listening("recovering", 503, 503, 200),
        "refusing": listening("refusing", 400),
    }
    for name, subscriber in subscribers.items():
        arm.create_subscription(
            TOPIC,
            name,
            subscriber.url,
            deadLetterDestination=dead_letter_destination(ACCOUNT, CONTAINER),
        )
        teller.say(f"{name:<12} proved that it wants events (validation handshake), and subscribed")
    _publish(host.url, arm.key(TOPIC))
    teller.say("you          published Shop.OrderPlaced with azure-eventgrid")

    complete = _story(teller, subscribers, container)
    if complete:
        teller.say("The story is complete.")
    if options.once or not complete:
        return 0 if complete else 1
    print(_goodbye(host.url, arm.key(TOPIC), azurite), flush=True)
    while host.process.poll() is None:
        time.sleep(0.5)
    return 1


def _publish(url: str, key: str) -> None:
    from azure.core.credentials import AzureKeyCredential
    from azure.eventgrid import EventGridEvent, EventGridPublisherClient

    endpoint = f"{url}/topics/{TOPIC}/api/events"
    with EventGridPublisherClient(endpoint, AzureKeyCredential(key)) as client:
        client.send(
            EventGridEvent(
                subject="/orders/17",
                event_type="Shop.OrderPlaced",
                data={"total": 12.5, "currency": "EUR"},
                data_version="1.0",
            )
        )


def _story(teller: _Teller, subscribers: dict[str, Subscriber], container: ContainerClient) -> bool:
    """Wait for each step; say which one is missing."""
    deadline = time.monotonic() + _STORY_SECONDS
    blob: list[tuple[str, bytes]] = []

    def dead_letter() -> bool:
        blob[:] = [
            (each.name, container.download_blob(each.name).readall())
            for each in container.list_blobs()
        ]
        return bool(blob)

    steps: list[tuple[str, Callable[[], bool]]] = [
        ("the healthy subscriber has the event", lambda: len(subscribers["healthy"].pushes) == 1),
        (
            "the recovering subscriber took it at the third attempt",
            lambda: len(subscribers["recovering"].pushes) == 3,  # noqa: PLR2004
        ),
        ("what was refused is a dead letter in blob storage", dead_letter),
    ]
    for step, is_done in steps:
        while not is_done():
            if time.monotonic() > deadline:
                teller.say(f"MISSING: {step}")
                return False
            time.sleep(0.1)
        teller.say(f"=> {step}")
    for name, body in blob:
        print(f"\n{CONTAINER}/{name}\n{dumps(loads(body), indent=2)}\n", flush=True)
    return len(subscribers["refusing"].pushes) == 1


def _container(azurite: Azurite) -> ContainerClient:
    from azure.storage.blob import BlobServiceClient

    service = BlobServiceClient.from_connection_string(azurite.connection_string)
    return service.get_container_client(CONTAINER)


def _goodbye(url: str, key: str, azurite: Azurite) -> str:
    return _GOODBYE.format(url=url, key=key, topic=TOPIC, storage=azurite.connection_string)


_GOODBYE = """
It goes on running until Ctrl-C. Send an event of your own:

  curl -i "{url}/topics/{topic}/api/events" -H "aeg-sas-key: {key}" \\
    -H "Content-Type: application/json" \\
    -d '[{{"id":"1","subject":"/orders/18","eventType":"Shop.OrderPaid","data":{{}},
          "eventTime":"2026-01-01T00:00:00Z","dataVersion":"1"}}]'

Ask why an event was not delivered at its first attempt:

  AzureWebJobsStorage='{storage}' \\
    .venv/bin/python -m cli timeline --topic {topic} --subscription recovering
"""
