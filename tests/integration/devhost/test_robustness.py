"""What goes wrong around the host: one clear line each, and it goes on by itself."""

from __future__ import annotations

import pytest

from devhost.azurite import KEY
from tests.integration.devhost.functions import HELLO, HTTP, QUEUE, TICK, TIMER, WORK


def test_an_unknown_trigger_is_one_line_and_the_others_go_on(start, function):
    function("good", HELLO, **HTTP)
    function("odd", HELLO, type="cosmosDBTrigger", name="docs")

    host = start()

    assert host.get("/good") == (200, b"hello")
    host.wait_for("odd   ERROR  ")
    assert "cosmosDBTrigger" in host.wait_for("odd   ERROR  ")
    host.assert_no_traceback()


def test_two_functions_of_one_route_are_told(start, function):
    function("first", "def main(req): return 'first'", route="same/{id}", **HTTP)
    function("other", "def main(req): return 'other'", route="SAME/{id}", **HTTP)
    function("posts", HELLO, route="same/{id}", methods=["delete"], **HTTP)

    host = start()

    assert host.get("/same/1") == (200, b"first")
    host.wait_for("other  never called: first has the same route")
    host.wait_for("posts  never called: first has the same route")
    host.assert_no_traceback()


def test_a_queue_deleted_under_the_host_is_missed_and_found_again(start, function, azurite, queue):
    function("work", WORK, queueName=queue.queue_name, **QUEUE)
    host = start(AzureWebJobsStorage=azurite.connection_string)
    queue.send_message("before")
    host.wait_for("out before")

    queue.delete_queue()
    host.wait_for(f"queue {queue.queue_name} is not there, waiting for it")
    queue.create_queue()
    queue.send_message("after")

    host.wait_for("out after")
    host.wait_for(f"queue {queue.queue_name} is there now")
    host.assert_said("is not there", 1)
    host.assert_no_traceback()


def test_a_queue_deleted_while_its_message_is_in_hand(start, function, azurite, queue):
    function("work", WORK, queueName=queue.queue_name, **QUEUE)
    host = start(AzureWebJobsStorage=azurite.connection_string)
    queue.send_message("slow")
    host.wait_for("in slow")

    queue.delete_queue()

    host.wait_for("out slow")
    host.wait_for("is not there")
    host.assert_no_traceback()
    assert host.stop() == 0


def test_an_idle_host_costs_next_to_nothing(start, function, azurite, queue):
    """Less than 2 % of a processor over five seconds, with a queue, a timer and HTTP."""
    function("good", HELLO, **HTTP)
    function("work", WORK, queueName=queue.queue_name, **QUEUE)
    function("clock", TICK, **(TIMER | {"schedule": "*/5 * * * * *"}))
    host = start(
        AzureWebJobsStorage=azurite.connection_string,
        AzureFunctionsJobHost__extensions__queues__maxPollingInterval="00:00:00.500",
    )
    host.wait_for("clock  ok")

    assert host.cpu_share(5) < 0.02


@pytest.mark.parametrize("kind", ["queue", "timer"])
def test_a_storage_that_refuses_the_host_ends_it_in_one_line(start, function, azurite, kind):
    """With the key of another account, say."""
    if kind == "queue":
        function("work", WORK, queueName="jobs", **QUEUE)
    else:
        function("work", TICK, **TIMER)
    name = {"queue": "queue jobs", "timer": "timer work"}[kind]
    wrong = azurite.connection_string.replace(KEY, "d3Jvbmc=")

    host = start(AzureWebJobsStorage=wrong)

    assert host.end() == 1
    assert host.lines[-1].startswith(f"devhost: {name}: storage refuses: ")
    assert " 403 " in f"{host.lines[-1]} "
    host.assert_no_traceback()
