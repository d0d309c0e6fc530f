"""In which room a sample of the profiler is counted."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from bench.price.profiler import ANSWERING, ROOMS, ProfilerError, shares

ROOT = Path(__file__).parents[3]
SERVER = ("run_asgi (uvicorn/protocols/http/httptools_impl.py:422)",)
APP = (*SERVER, "HttpApp.__call__ (devhost/http/app.py:121)")
INVOKED = (*APP, "Invoker._run (devhost/functions/invoke.py:176)")
PUBLISH = (*INVOKED, "main (publish_function/__init__.py:13)")
LISTENER = ("QueueListener._handle (devhost/queue/listener.py:244)",)
CALLED = (*LISTENER, "Invoker._run (devhost/functions/invoke.py:176)")
DELIVER = (*CALLED, "main (deliver_function/__init__.py:12)")


@pytest.mark.parametrize(
    ("stack", "room"),
    [
        (SERVER, "server"),
        (APP, "server"),
        ((*APP, "Response.send (devhost/http/response.py:40)"), "sending"),
        (INVOKED, "invocation"),
        (PUBLISH, "function"),
        ((*PUBLISH, "parse (shared/events/strict_json.py:59)"), "function"),
        ((*PUBLISH, "GroupCommit._begin (shared/adapters/group_commit.py:90)"), "storing"),
        (("run (python3.11/threading.py:982)",), "rest"),
        ((), "rest"),
        (LISTENER, "queue listener"),
        (CALLED, "queue listener"),
        (DELIVER, "delivering"),
        ((*DELIVER, "put (shared/adapters/storage/queues.py:30)"), "storing"),
        (("Push.__call__ (shared/engine/delivering/push.py:50)",), "delivering"),
    ],
)
def test_a_sample_belongs_to_one_room(stack: tuple[str, ...], room: str):
    told = shares(";".join(("MainThread", *stack)) + " 7")

    answering = {"answering %"} if room in ANSWERING else set()
    assert {name for name, value in told.items() if value == 100.0} == {f"{room} %", *answering}


def test_shares_are_those_of_all_samples_and_answering_is_a_sum():
    counted = {PUBLISH: 30, INVOKED: 20, DELIVER: 40, (): 10}

    told = shares("\n".join(f"{';'.join(stack)} {count}" for stack, count in counted.items()))

    assert told["samples"] == 100
    assert (told["answering %"], told["function %"], told["invocation %"]) == (50.0, 30.0, 20.0)
    assert (told["delivering %"], told["rest %"], told["storing %"]) == (40.0, 10.0, 0.0)


def test_without_a_sample_there_are_no_shares():
    with pytest.raises(ProfilerError, match="there is no sample"):
        shares("")


def test_the_files_of_every_room_are_there():
    for file in (file for files in ROOMS.values() for file in files):
        assert (ROOT / file).exists() or find_spec(file.rstrip("/")), file
