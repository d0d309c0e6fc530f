"""An endpoint that was down for a while gets everything, but not all at once. Design §2, Health."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Sequence

from devhost.azurite import running_azurite
from devhost.process import running_host
from testbed.arm import Arm
from testbed.host_settings import host_settings
from testbed.subscriber import Push, Subscriber
from tests.e2e.publishing import ids, post

RATE, TOGETHER = 20, 4  # events a second, and in a request
# A quarter of the time; RECOVERY_SCALE=1 plays the whole minute, which takes five. So does
# tests/functional/delivering/test_recovery.py, in simulated time.
SCALE = float(os.environ.get("RECOVERY_SCALE", "4"))
BEFORE, DOWN, AFTER = 8.0, 60.0 / SCALE, 5.0  # seconds of publishing
WINDOW = 5.0
# By when everything must have arrived: holds have grown to two minutes, and what waited is paced.
SECONDS = 60.0 + 240.0 / SCALE


def test_what_was_held_comes_back_paced(
    subscriber: Callable[..., Subscriber], report: Callable[[str], None]
):
    """Down for a minute, scaled: everything arrives, and the peak is at most threefold."""
    is_down = threading.Event()

    def answer(_: Push) -> int:
        return 503 if is_down.is_set() else 200

    receiver = subscriber(answer)
    with (
        running_azurite() as azurite,
        running_host(host_settings(azurite, PUSHGRID_TIME_SCALE=str(SCALE))) as host,
    ):
        arm = Arm(host.url)
        arm.create_topic("orders")
        arm.create_subscription("orders", "crm", receiver.url)
        key = arm.key("orders")
        sent: set[str] = set()

        def publish(seconds: float) -> None:
            ends = time.time() + seconds
            due = time.time()
            while due < ends:
                numbers = [f"e-{len(sent) + i}" for i in range(TOGETHER)]
                body = json.dumps([_event(number) for number in numbers]).encode()
                while post(host.url, "orders", key, body).status_code != 200:
                    time.sleep(0.1)  # as the SDKs do
                sent.update(numbers)
                due += TOGETHER / RATE
                time.sleep(max(0.0, due - time.time()))

        publish(BEFORE)
        is_down.set()
        down_at = time.time()
        publish(DOWN)
        is_down.clear()
        up_at = time.time()
        publish(AFTER)
        everything = receiver.wait_for(lambda pushes: _all(pushes, sent, up_at, down_at), SECONDS)

    normal = len([push for push in receiver.pushes if push.at < down_at]) / BEFORE
    while_down = [push.at for push in receiver.pushes if down_at <= push.at < up_at]
    after = [push.at for push in receiver.pushes if push.at >= up_at]
    peak = _peak(after)
    report(
        f"down for {DOWN:.0f} s at {normal:.1f} requests/s: {len(while_down)} requests while down, "
        f"then at most {peak:.1f}/s over {WINDOW:.0f} s ({peak / normal:.2f} x), "
        f"all there {max(after) - up_at:.0f} s after it was up; "
        f"{len(receiver.pushes) - len(sent)} requests more than events"
    )
    assert everything
    assert peak <= 3 * normal


def _all(pushes: list[Push], sent: set[str], up_at: float, down_at: float) -> bool:
    got = [push for push in pushes if push.at < down_at or push.at >= up_at]
    return len(got) >= len(sent) and sent <= ids(got)


def _peak(times: Sequence[float]) -> float:
    """Return the most requests a second over any window."""
    counts = [sum(start <= at < start + WINDOW for at in times) for start in times]
    return max(counts) / WINDOW


def _event(number: str) -> dict[str, object]:
    return {
        "id": number,
        "subject": "/orders/17",
        "eventType": "Shop.OrderPlaced",
        "eventTime": "2026-01-01T00:00:00Z",
        "data": {},
        "dataVersion": "1",
    }
