"""What an operator sees first: five subscriptions in trouble, each with cause and remedy."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from testbed.subscriber import PATIENCE, Push, Reply, Subscriber, answers
from tests.commands import Run
from tests.host.running import until

TIME_SCALE = 1  # and so a storage of its own: nothing else is wrong there
RATE = 60  # requests a minute that the slow endpoint allows
MANY = 3000
ORDER = ["refusing", "hanging", "paused", "expired", "slow"]


def allows_little(_: Push) -> Reply:
    return Reply(200, headers={"WebHook-Allowed-Origin": "*", "WebHook-Allowed-Rate": str(RATE)})


def test_status_names_all_that_is_wrong_in_order_of_harm(
    pushgrid: Run, name: str, subscriber: Callable[..., Subscriber]
) -> None:
    end = threading.Event()

    def hang(_: Push) -> int:
        end.wait(PATIENCE)
        return 200

    endpoints = {
        "expired": subscriber(),
        "refusing": subscriber(answers(400)),
        "hanging": subscriber(hang),
        "paused": subscriber(),
        "slow": subscriber(consent=allows_little),
    }
    pushgrid("topic", "create", name)
    well = pushgrid("status")
    assert (well.code, "is healthy" in well.out, "0 events wait" in well.out) == (0, True, True)
    soon = (datetime.now(UTC) + timedelta(seconds=10)).isoformat()
    options = {
        "refusing": ("--dead-letter-container", "dead"),
        "expired": ("--expires", soon),
        "slow": ("--schema", "cloudevents"),
    }
    for each, endpoint in endpoints.items():
        chosen = ("--endpoint", endpoint.url, "--event-types", each, *options.get(each, ()))
        assert pushgrid("subscription", "create", each, "-t", name, *chosen).code == 0
    pushgrid("subscription", "pause", "paused", "-t", name)
    for each, count in {"refusing": 3, "hanging": 2, "paused": 4, "slow": MANY}.items():
        lines = "\n".join(json.dumps({"type": each, "data": number}) for number in range(count))
        assert pushgrid("publish", name, "-", given=lines).code == 0

    def waiting() -> dict[str, int]:
        time.sleep(0.5)  # Looking costs the host more than what it has to do.
        found = pushgrid("status", "--json").document["troubles"]
        return {each["subscription"]: each["waiting"] for each in found}

    try:
        assert until(lambda: set(waiting()) == set(ORDER))
        assert until(lambda: waiting()["hanging"] == 2 and waiting()["paused"] == 4)
        seen, text = pushgrid("status", "--json"), pushgrid("status")
    finally:
        end.set()

    assert (seen.code, text.code, seen.document["status"]) == (1, 1, "degraded")
    troubles = {each["subscription"]: each for each in seen.document["troubles"]}
    kinds = [each["kind"] for each in troubles.values()]
    assert kinds in (
        ["failing", "held", "paused", "expired", "slow"],
        ["failing", "failing", "paused", "expired", "slow"],
    )
    assert troubles["refusing"]["why"].startswith("400 BadRequest at ")
    assert "TimedOut" in troubles["hanging"]["why"]
    assert troubles["slow"]["waiting"] > MANY / 2
    assert troubles["slow"]["oldestSeenSeconds"] > 30
    assert seen.document["waiting"]["events"] == sum(each["waiting"] for each in troubles.values())
    shown = text.out.splitlines()
    heads = [line for line in shown if line.startswith(f"{name}/")]
    assert {line.split()[0] for line in heads[:2]} == {f"{name}/{each}" for each in ORDER[:2]}
    assert [line.split()[0] for line in heads[2:]] == [f"{name}/{each}" for each in ORDER[2:]]
    for each in troubles.values():
        at = next(n for n, line in enumerate(shown) if f"/{each['subscription']} is" in line)
        assert shown[at + 1].strip()
        assert name in shown[at + 2]
