"""`pushgrid demo`: runs an end-to-end demo on real components and narrates it."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import click

from cli.local.local_deployment import running_deployment
from cli.local.narration import narrate
from cli.terminal import printable_json, say
from devhost.azurite import ACCOUNT, Azurite
from devhost.errors import HostError
from shared.events.literals import dumps, loads
from testbed.arm import Arm, dead_letter_destination
from testbed.ending import end_on_signals
from testbed.host_settings import LOCAL
from testbed.subscriber import Push, Subscriber, answers, running_subscriber

if TYPE_CHECKING:
    from azure.storage.blob import ContainerClient

TIME_SCALE = 20
TOPIC = "orders"
CONTAINER = "deadletters-demo"
SUBSCRIBERS = {"healthy": (200,), "recovering": (503, 503, 200), "refusing": (400,)}
_NARRATED = frozenset({"published", "retry", "given up"})
_STEPS_SECONDS = 50.0


@click.command("demo")
@click.option("--once", is_flag=True, help="Exit when the demo is complete.")
@click.option("--port", type=int, default=0, help="Port of the host; the default is a free one.")
def demo(once: bool, port: int) -> int:
    """Run an end-to-end demo on real components, and narrate it."""
    end_on_signals()
    try:
        with ExitStack() as stack:
            return _run(stack, port, once=once)
    except HostError as error:
        say(f"demo: {error}")
        return 1
    except KeyboardInterrupt:
        say("\nThe demo has ended.")
        return 130 if once else 0


@dataclass(slots=True, kw_only=True)
class _Narrator:
    """Prints what happens with the seconds since the demo began, from any thread."""

    began: float = field(default_factory=time.monotonic)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def say(self, text: str) -> None:
        with self.lock:
            say(f"{time.monotonic() - self.began:6.1f} s  {text}")

    def on_line(self, line: str) -> None:
        """Narrate the host's log line if it is about an attempt or a publish request."""
        activity = narrate(line)
        if activity and activity.kind in _NARRATED:
            who = activity.about.partition("/")[2] or "pushgrid"
            self.say(f"{who:<12} {activity.text}")


def _run(stack: ExitStack, port: int, *, once: bool) -> int:
    say("Starting storage (Azurite) and the Functions host …")
    narrator = _Narrator()
    run = stack.enter_context(
        running_deployment(
            LOCAL | {"PUSHGRID_TIME_SCALE": str(TIME_SCALE)},
            port=port,
            on_line=narrator.on_line,
        )
    )
    url = run.api.url
    say(
        f"Running at {url}. Retry delays are {TIME_SCALE} times shorter than Event Grid's: "
        f"30 s take {30 / TIME_SCALE:g} s.\n",
    )
    narrator.began = time.monotonic()
    container = _container(run.azurite)
    container.create_container()
    arm = Arm(url, run.api.token())
    arm.create_topic(TOPIC)
    narrator.say(f"you          created the topic '{TOPIC}'")
    subscribers = {
        name: stack.enter_context(running_subscriber(_narrated(narrator, name, statuses)))
        for name, statuses in SUBSCRIBERS.items()
    }
    dead_letters = dead_letter_destination(ACCOUNT, CONTAINER)
    for name, subscriber in subscribers.items():
        arm.create_subscription(TOPIC, name, subscriber.url, deadLetterDestination=dead_letters)
        narrator.say(f"{name:<12} completed the validation handshake and is subscribed")
    key = arm.key(TOPIC)
    _publish(url, key)
    narrator.say("you          published Shop.OrderPlaced with azure-eventgrid")

    complete = _await_steps(narrator, subscribers, container)
    if complete:
        narrator.say("The demo is complete.")
    if once or not complete:
        return 0 if complete else 1
    program = "pushgrid" if shutil.which("pushgrid") else ".venv/bin/pushgrid"
    say(_GOODBYE.format(url=url, topic=TOPIC, program=program))
    while True:
        run.check()
        time.sleep(0.5)


def _narrated(narrator: _Narrator, name: str, statuses: tuple[int, ...]) -> Callable[[Push], int]:
    answer = answers(*statuses)

    def narrate(push: Push) -> int:
        status = answer(push)
        kind = push.events[0]["eventType"]
        narrator.say(f"{name:<12} received {kind}, answers {status}")
        return status

    return narrate


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


def _await_steps(
    narrator: _Narrator, subscribers: Mapping[str, Subscriber], container: ContainerClient
) -> bool:
    """Wait for each step and narrate it; return whether all were seen in time."""
    deadline = time.monotonic() + _STEPS_SECONDS

    def has_pushes(name: str) -> bool:
        return len(subscribers[name].pushes) == len(SUBSCRIBERS[name])

    steps: tuple[tuple[str, Callable[[], bool]], ...] = (
        ("the healthy subscriber has the event", lambda: has_pushes("healthy")),
        (
            "the recovering subscriber received it at the third attempt",
            lambda: has_pushes("recovering"),
        ),
        (
            "the refused event is a dead letter in blob storage",
            lambda: any(container.list_blob_names()),
        ),
    )
    for step, is_done in steps:
        while not is_done():
            if time.monotonic() > deadline:
                narrator.say(f"MISSING: {step}")
                return False
            time.sleep(0.1)
        narrator.say(f"=> {step}")
    for name in container.list_blob_names():
        body = loads(container.download_blob(name).readall())
        say(f"\n{CONTAINER}/{name}\n{printable_json(dumps(body, indent=2))}\n")
    return has_pushes("refusing")


def _container(azurite: Azurite) -> ContainerClient:
    from azure.storage.blob import BlobServiceClient

    service = BlobServiceClient.from_connection_string(azurite.connection_string)
    return service.get_container_client(CONTAINER)


_GOODBYE = """
The host keeps running until Ctrl-C. Publish an event of your own, and show why another one was not
delivered at its first attempt:

  export PUSHGRID_URL={url}
  {program} publish {topic} --type Shop.OrderPaid --subject /orders/18
  {program} timeline --topic {topic} --subscription recovering
"""
