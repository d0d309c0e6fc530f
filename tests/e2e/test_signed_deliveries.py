"""A subscriber that verifies signatures, through two rotations under load."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from standardwebhooks import Webhook, WebhookVerificationError

from devhost.process import RunningHost
from testbed.arm import Arm
from testbed.subscriber import Push, Subscriber
from tests.commands import Run
from tests.e2e.publishing import an_event, ids, send

AT_A_TIME = 20


class Verifying:
    """Answers 503 to what its one secret has not signed, and remembers it."""

    def __init__(self) -> None:
        self.secret = ""
        self.refused: list[Push] = []

    def __call__(self, push: Push) -> int:
        try:
            Webhook(self.secret).verify(push.body, dict(push.headers))
        except (WebhookVerificationError, ValueError):
            self.refused.append(push)
            return 503
        return 200


@contextmanager
def load(url: str, topic: str, key: str) -> Iterator[list[str]]:
    """Publish all the time; yield the ids of what was accepted."""
    published: list[str] = []
    done = threading.Event()

    def publish() -> None:
        while not done.is_set():
            events = [an_event(number) for number in range(AT_A_TIME)]
            send(url, topic, key, events)
            published.extend(each.id for each in events)

    thread = threading.Thread(target=publish)
    thread.start()
    try:
        yield published
    finally:
        done.set()
        thread.join()


def test_none_is_refused_through_rotations_under_load(
    host: RunningHost, arm: Arm, subscriber: Callable[..., Subscriber], pushgrid: Run
) -> None:
    """
    The subscriber knows one secret at a time.

    It moves to the new one when a delivery has had both signatures and all before it have arrived:
    what the guide's two minutes stand for.
    """
    topic, verifying = f"signed-{uuid.uuid4().hex[:8]}", Verifying()
    receiver, where = subscriber(verifying), ("crm", "-t", topic)
    arm.create_topic(topic)
    made = pushgrid("subscription", "create", *where, "--endpoint", receiver.url, "--sign")
    first = verifying.secret = made.err.split()[-1]
    published: list[str] = []

    def some_more(is_enough: Callable[[list[Push]], bool] = bool) -> None:
        """Wait for more pushes, which are enough."""
        before = len(receiver.pushes) + AT_A_TIME
        assert receiver.wait_for(lambda pushes: is_enough(pushes[before:]))

    def rotate() -> str:
        new = str(pushgrid("subscription", "rotate", *where, "--json").document["secret"])
        some_more(lambda pushes: any(is_signed_with(new, each) for each in pushes))
        return new

    for does_rotate in (True, True, False):
        with load(host.url, topic, arm.key(topic)) as wave:
            some_more()
            new = rotate() if does_rotate else verifying.secret
        published.extend(wave)
        assert receiver.wait_for(lambda pushes: ids(pushes) >= set(published))
        verifying.secret = new

    assert verifying.refused == []
    by_id = {push.headers["webhook-id"]: push.events[0]["id"] for push in receiver.pushes}
    assert len(by_id) == len(set(by_id.values())) == len(set(published))
    assert not is_signed_with(first, receiver.pushes[-1])
    assert not any("webhook-signature" in each.headers for each in receiver.handshakes)


def is_signed_with(secret: str, push: Push) -> bool:
    try:
        Webhook(secret).verify(push.body, dict(push.headers))
    except WebhookVerificationError:
        return False
    return True
