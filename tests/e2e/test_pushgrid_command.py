"""The command `pushgrid`, as an operator types it, on the running product."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from cli.deployment import Deployment
from cli.local.local_deployment import HOME
from cli.readings import Readings
from devhost.process import RunningHost
from testbed.arm import ADMIN_KEY
from testbed.subscriber import PATIENCE, Subscriber, answers
from tests.commands import Command, Run
from tests.host.running import until


def test_from_a_namespace_topic_to_a_delivery(
    pushgrid: Run, name: str, subscriber: Callable[..., Subscriber]
) -> None:
    """Its namespace is created with it; events are read from standard input, one a line."""
    there, topic = subscriber(), f"{name}.orders"
    pushgrid("topic", "create", topic)
    options = ("--endpoint", there.url, "--filter", "data.total > 2")
    pushgrid("subscription", "create", "crm", "-t", topic, *options)
    lines = [json.dumps({"type": "a", "data": {"total": total}}) for total in (1, 2, 3)]

    sent = pushgrid("publish", topic, "-", given="\n".join(lines))

    assert sent.out == f"published 3 events to {topic}; 1 event subscription matched\n"
    assert there.wait_for(bool)
    (push,) = there.pushes
    assert push.events[0]["data"] == {"total": 3}


def test_a_pause_is_shown_everywhere_and_ends_when_it_is_resumed(
    host: RunningHost, pushgrid: Run, name: str, subscriber: Callable[..., Subscriber]
) -> None:
    """What arrives during the pause is the operator's test, which passes it."""
    there, where = subscriber(), ("crm", "-t", name)
    made = pushgrid("topic", "create", name)
    subscribed = pushgrid("subscription", "create", *where, "--endpoint", there.url)
    assert f"/topics/{name}/api/events" in made.out
    assert subscribed.out == f"created event subscription crm of {name}: Succeeded\n"

    paused = pushgrid("subscription", "pause", *where)
    (event_id,) = pushgrid("publish", name, "--type", "Placed", "--json").document["ids"]
    assert until(lambda: any(name in line and '"held":1' in line for line in list(host.lines)))
    tested = pushgrid("subscription", "test", *where)
    assert there.wait_for(bool)

    assert paused.code == 0
    assert paused.out.startswith(f"crm of {name}: Paused: its events are stored and wait.")
    note = "by the admin key"
    for shown in (paused.out, pushgrid("subscription", "list", "-t", name).out):
        assert note in shown
    assert note in pushgrid("subscription", "show", *where).err
    status = pushgrid("status")
    _, _, mine = status.out.partition(f"\n{name}/crm is paused since ")
    assert (status.code, note in mine.splitlines()[1]) == (1, True)
    timeline = pushgrid("timeline", "--topic", name, "--subscription", "crm").out
    assert "Paused since " in timeline
    assert tested.code == 0
    assert "200 (Delivered) after " in tested.out
    assert "address: 127.0.0.1" in tested.out
    assert pushgrid("subscription", "pause", *where, "--json").document["changed"] is False
    assert [push.events[0]["eventType"] for push in there.pushes] == ["Pushgrid.TestEvent"]

    resumed = pushgrid("subscription", "resume", *where)

    assert resumed.out.startswith(f"crm of {name}: Resumed: ")
    assert there.wait_for(lambda pushes: len(pushes) > 1)
    assert [push.events[0]["id"] for push in there.pushes[1:]] == [event_id]
    released = pushgrid("subscription", "release", *where)
    assert released.out == f"crm of {name}: Its endpoint was not held.\n"
    assert name not in pushgrid("status").out


def test_what_fails_is_shown_with_its_reason(
    host: RunningHost, pushgrid: Run, name: str, subscriber: Callable[..., Subscriber]
) -> None:
    there, where = subscriber(answers(503)), ("crm", "-t", name)
    pushgrid("topic", "create", name)
    pushgrid("subscription", "create", *where, "--endpoint", there.url)
    of_crm = ("timeline", "-t", name, "-s", "crm")
    nothing, tested = pushgrid(*of_crm), pushgrid("subscription", "test", *where)
    readings = Readings(Deployment(url=host.url, token=lambda: ADMIN_KEY))
    # More than what other tests' endpoints refuse meanwhile.
    given = "\n".join('{"type": "a", "data": 1}' for _ in range(20))
    events = pushgrid("publish", name, "-", "--json", given=given).document["ids"]
    pushgrid("subscription", "pause", *where)

    def mine() -> list[Any]:
        return [each for each in readings.read().failures if each["topic"] == name]

    failed = until(mine)[-1]
    timeline = pushgrid(*of_crm, "--event", failed["eventId"], "--since", "2h")
    shown, document = pushgrid("top", "--once"), pushgrid("top", "--once", "--json").document

    assert nothing.code == 1
    assert "No failed attempt is recorded for subscription 'crm'" in nothing.out
    assert (tested.code, "503 (Busy) after " in tested.out) == (1, True)
    assert failed["eventId"] in events
    assert (failed["number"], failed["outcome"]) == (1, "Busy")
    assert failed["nextAt"] > failed["at"]
    assert timeline.out.startswith(f"{failed['eventId']}  a  published ")
    assert "503 Busy" in timeline.out
    assert failed["why"] in timeline.out
    assert (shown.code, shown.err) == (0, "")
    [trouble] = [each for each in document["troubles"] if each["topic"] == name]
    assert (trouble["kind"], document["status"]) == ("paused", "degraded")
    assert "is degraded" in shown.out.splitlines()[0]


def test_a_listener_subscribes_for_as_long_as_it_runs(
    host: RunningHost, pushgrid: Run, name: str
) -> None:
    pushgrid("topic", "create", name)
    options = ("--port", "0", "--topic", name, "--url", host.url, "--admin-key", ADMIN_KEY)
    command = [sys.executable, "-m", "cli", "listen", *options]
    with Command(command, HOME, os.environ) as listener:
        listener.see("subscribed to", name, "until this command ends")
        pushgrid("publish", name, "--type", "Placed", "--id", "e-1")
        listener.see('"id": "e-1"')
        listener.process.send_signal(signal.SIGINT)
        listener.process.wait(PATIENCE)

    assert pushgrid("subscription", "list", "-t", name, "--json").document == []
