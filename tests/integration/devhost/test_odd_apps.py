"""Functions and settings that nobody should write: one line each, and the others go on."""

from __future__ import annotations

import http.client

import pytest

from tests.host.page import same_page
from tests.host.running import until
from tests.integration.devhost.functions import HELLO, HTTP, QUEUE, TICK, TIMER, WORK

CANCELLED = "import asyncio\nasync def main({}): raise asyncio.CancelledError\n"
INTERRUPTED = "async def main({}): raise KeyboardInterrupt\n"


@pytest.mark.parametrize("source", [CANCELLED, INTERRUPTED], ids=["cancelled", "interrupted"])
def test_what_ends_a_task_or_a_program_ends_one_invocation(start, function, azurite, queue, source):
    function("good", HELLO, **HTTP)
    function("web", source.format("req"), **HTTP)
    function("work", source.format("message"), queueName=queue.queue_name, **QUEUE)
    function("clock", source.format("tick"), **TIMER)

    host = start(AzureWebJobsStorage=azurite.connection_string)
    queue.send_message("bad")

    assert host.get("/web") == (500, b"")
    host.wait_for("-poison")
    host.assert_said("work   FAILED", 5)
    until(lambda: host.count("clock  FAILED") >= 3)
    assert host.get("/good") == (200, b"hello")
    assert host.stop() == 0
    host.assert_said("Exception in ASGI application", 0)


def test_a_module_that_ends_whatever_imports_it(start, function):
    function("good", HELLO, **HTTP)
    function("bad", "import asyncio\nraise asyncio.CancelledError('x')", **HTTP)

    host = start()

    host.wait_for("bad   ERROR  CancelledError: x")
    assert host.get("/good") == (200, b"hello")


ANSWER = "import azure.functions as func\ndef main(req): return func.HttpResponse('x', {})"


def test_an_answer_that_cannot_be_sent_is_500(start, function):
    names = ("{'a b': '1'}", "{'a:b': '1'}", "{'': '1'}", "{'a': chr(1)}")
    odd = ["status_code=999", *(f"headers={each}" for each in names)]
    for number, how in enumerate(odd):
        function(f"web{number}", ANSWER.format(how), **HTTP)
    host = start()

    for number in range(len(odd)):
        assert host.get(f"/web{number}") == (500, b"")
        host.wait_for(f"web{number} answered what cannot be sent")
    host.assert_no_traceback()


def test_space_around_a_headers_value_is_no_part_of_it(start, function):
    function("web", ANSWER.format("headers={'a': ' 1 '}"), **HTTP)
    client = http.client.HTTPConnection(start().url.removeprefix("http://"), timeout=20)

    client.request("GET", "/web")
    answer = client.getresponse()
    client.close()

    assert (answer.status, answer.headers["a"]) == (200, "1")


def test_requests_that_are_too_much(start, function):
    """Numbers of more digits than Python reads, and JSON of more depth."""
    function("web", HELLO, route="num/{id:int}", **HTTP)
    function("work", WORK, queueName="jobs", **QUEUE)
    host = start("--azurite")

    assert host.get("/num/" + "9" * 5000) == (404, b"")
    assert host.get("/admin/functions/work", data=b"[" * 200_000) == (400, b"")
    assert host.get("/admin/functions/work", data=b'{"input": "\\ud800"}') == (400, b"")
    assert host.get("/num/7") == (200, b"hello")
    host.assert_no_traceback()


def test_a_storage_that_cannot_be_called_is_one_functions_fault(start, function):
    function("good", HELLO, **HTTP)
    function("work", WORK, queueName="jobs", **QUEUE)
    function("clock", TICK, **TIMER)

    host = start(AzureWebJobsStorage="AccountName=a;QueueEndpoint=http://[::1/a;BlobEndpoint=b")

    for name in ("work ", "clock"):
        host.wait_for(f"{name}  ERROR  setting AzureWebJobsStorage: 'http://[::1/a' is no address")
    assert host.get("/good") == (200, b"hello")
    host.assert_no_traceback()


def test_something_else_where_storage_should_be(start, function):
    function("good", HELLO, **HTTP)
    function("work", WORK, queueName="jobs", **QUEUE)
    function("clock", TICK, **TIMER)

    with same_page(b"<p>hello\n") as url:
        where = f"AccountName=a;AccountKey=aaaa;QueueEndpoint={url};BlobEndpoint={url}"
        host = start(AzureWebJobsStorage=where)

        told = "queue jobs: storage fails, still trying: its answer is not a queue service's"
        host.wait_for(told)
        host.wait_for("timer clock: storage fails, still trying: ")
        assert host.get("/good") == (200, b"hello")
        assert host.stop() == 0
    host.assert_no_traceback()
    host.assert_said("still trying", 2)
