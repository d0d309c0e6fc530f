"""One invocation: threads, faults and time limits. tests/worker has inputs and outputs."""

import asyncio
import contextvars
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import azure.functions as func
import pytest

from devhost.errors import InvocationError
from devhost.functions.invoke import Invoker
from devhost.functions.loader import _others_code, app_traceback
from devhost.http.request import HostRequest

REQUEST = HostRequest(
    method="GET", path="a", url="http://h/a", headers={"x-a": "1"}, query={"q": "2"}
).datum({"id": "3"}, b"body")

colour = contextvars.ContextVar("colour", default="none")


@pytest.fixture
def reports():
    return []


@pytest.fixture
def call(reports):
    """Invoke a function on real threads, two of them."""

    def go(function, datum=REQUEST, metadata=None, *, timeout=None):
        with ThreadPoolExecutor(2, "function") as threads:
            invoker = Invoker(threads=threads, timeout=timeout, report=reports.append)
            return asyncio.run(invoker.invoke(function, datum, metadata))

    return go


@pytest.fixture
def failed(call, reports):
    """Invoke a function that fails; return the report of it."""

    def go(function, **options):
        with pytest.raises(InvocationError):
            call(function, **options)
        return reports[0]

    return go


def test_context_variables_reach_the_thread(call, http_function):
    def main(_req):
        return colour.get()

    colour.set("blue")

    assert call(http_function(main)).value == "blue"


class _Unforeseen(BaseException):
    """A BaseException that is not one of Python's own."""


@pytest.mark.parametrize(
    "fault",
    [
        ValueError("boom"),
        SystemExit(3),
        StopIteration("x"),
        asyncio.CancelledError(),
        KeyboardInterrupt(),
        _Unforeseen("x"),
    ],
    ids=repr,
)
@pytest.mark.parametrize("asynchronous", [False, True])
def test_whatever_a_function_raises_is_one_failed_invocation(
    failed, http_function, fault, asynchronous
):
    def main(_req):
        raise fault

    async def amain(_req):
        raise fault

    assert failed(http_function(amain if asynchronous else main)).fault is not None


def test_an_invocation_that_is_cancelled_from_outside_ends_as_cancelled(http_function, reports):
    """The host is ending: no caller is left to handle a failure."""

    async def main(_req):
        await asyncio.Event().wait()

    async def scene(threads: ThreadPoolExecutor) -> None:
        invoker = Invoker(threads=threads, timeout=None, report=reports.append)
        task = asyncio.create_task(invoker.invoke(http_function(main), REQUEST, None))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()

    with ThreadPoolExecutor(1) as threads:
        asyncio.run(scene(threads))

    assert isinstance(reports[0].fault, asyncio.CancelledError)
    assert app_traceback(reports[0].fault) == ""


def test_a_timeout_of_the_apps_own_is_not_the_hosts(failed, http_function):
    def main(_req):
        raise TimeoutError("theirs")

    report = failed(http_function(main), timeout=timedelta(minutes=1))

    assert str(report.fault) == "theirs"


@pytest.mark.parametrize(
    ("own", "is_the_apps"), [("/checkout/devhost", False), ("/site/pushgrid/home/devhost", True)]
)
def test_code_of_an_installed_package_is_the_apps_where_the_host_is_installed(own, is_the_apps):
    others = _others_code(Path(own), Path("/site"))

    assert "/site/pushgrid/shared/clock.py".startswith(others) is not is_the_apps
    assert "/site/azure/core/x.py".startswith(others)
    assert f"{own}/functions/invoke.py".startswith(others)


def test_the_traceback_of_what_it_came_from_is_the_apps_as_well(failed, http_function):
    """The cause has frames here and in a package; its own cause has none."""

    def main(_req):
        try:
            func.HttpResponse(headers={"a": "b\n"})
        except ValueError as fault:
            fault.__cause__ = OSError("deep below")
            raise RuntimeError("mine") from fault

    trace = app_traceback(failed(http_function(main)).fault)
    assert "ValueError: Header values" in trace
    assert trace.endswith("RuntimeError: mine")
    assert "site-packages" not in trace
    assert "deep below" not in trace


def test_the_time_that_it_took_is_reported(call, http_function, reports, monkeypatch):
    monkeypatch.setattr("devhost.functions.invoke.time.perf_counter", iter((7.0, 7.25)).__next__)

    call(http_function(lambda _req: ""))

    assert reports[0].milliseconds == 250
    assert len(reports[0].invocation_id) == 36
