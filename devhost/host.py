"""One run of the host: load, serve, and end without losing what is in hand."""

from __future__ import annotations

import asyncio
import functools
import os
import signal
import socket
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from devhost import log, settings
from devhost.by_hand import run_by_hand
from devhost.errors import BadFunctionError, HostError
from devhost.functions import loader, metadata
from devhost.functions.invoke import Invoker, Report, app_traceback
from devhost.functions.loader import Function
from devhost.functions.metadata import BadFunction
from devhost.http.admin import Admin
from devhost.http.app import HttpApp
from devhost.http.keys import Keys, make_keys
from devhost.http.server import ADDRESS, HttpServer, reserved_port
from devhost.log import Console
from devhost.triggers import Plan, Triggers

#: What the real host allows itself to finish, in seconds.
DRAIN_SECONDS = 30

_THREADS = "PYTHON_THREADPOOL_THREAD_COUNT"
_ENDED_AT_ONCE = 130
_NO_SETTINGS = (
    f"there is no {settings.FILE} here: `make setup` makes Pushgrid's; "
    "for an app of your own write one, or give settings by the environment or --env"
)


class Host:
    """Runs an app until told to stop."""

    def __init__(self, plan: Plan, console: Console) -> None:
        self._plan = plan
        self._console = console
        self._stop = asyncio.Event()
        threads = _thread_count(plan, console)
        self._threads = ThreadPoolExecutor(threads, "function")
        self._invoker = Invoker(
            threads=self._threads,
            timeout=plan.options.function_timeout,
            report=self._report,
        )
        self._triggers = Triggers(plan, self._invoker)
        self._width = 0
        self._faults: set[str] = set()

    async def run(self) -> None:
        """
        Serve until told to stop.

        Raises:
            HostError: the host cannot start, or cannot go on.
        """
        with reserved_port(self._plan.port) as taken:
            functions = self._load()
            loop = asyncio.get_running_loop()
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.add_signal_handler(number, self._signalled)
            await self._serve(functions, taken)

    def _load(self) -> list[Function]:
        found = metadata.scan(self._plan.root, self._plan.environ)
        self._width = max((len(each.name) for each in found), default=0)
        loader.prepare(self._plan.root)
        functions = [function for each in found if (function := self._load_one(each))]
        if not found:
            self._console.plain(_nothing_in(self._plan.root))
        if self._faults and not (self._plan.root / settings.FILE).exists():
            self._console.plain(_NO_SETTINGS)
        return functions

    def _load_one(self, found: metadata.FunctionMetadata | BadFunction) -> Function | None:
        if isinstance(found, BadFunction):
            self._list_fault(found.name, found.fault)
            return None
        function = loader.load(found)
        if found.disabled:
            self._list(found.name, "disabled")
            return function
        try:
            where = self._triggers.add(function)
        except BadFunctionError as fault:
            self._list_fault(found.name, str(fault))
            return None
        self._list(found.name, where)
        if function.fault:
            # Served all the same: each of its calls fails, as on the real host.
            self._list_fault(found.name, function.fault, function.trace)
        return function

    def _list_fault(self, name: str, fault: str, trace: str = "") -> None:
        self._list(name, f"ERROR  {fault}")
        # What several functions have in common is at fault once.
        if trace and fault not in self._faults:
            self._console.trouble(trace)
        self._faults.add(fault)

    def _list(self, name: str, text: str) -> None:
        self._console.plain(f"  {name:<{self._width}}  {text}")

    async def _serve(self, functions: list[Function], taken: socket.socket) -> None:
        admin, server = self._http(functions, taken)
        drain = [admin.drain, *(each.drain for each in self._triggers.listeners)]
        tasks = [
            asyncio.create_task(each)
            for each in (
                server.serve(),
                *(listener.run() for listener in self._triggers.listeners),
                *(timer.run() for timer in self._triggers.timers),
            )
        ]
        await server.started()
        self._console.plain(f"ready http://{ADDRESS}:{taken.getsockname()[1]}")
        await _first([self._stop.wait(), *(_failure(task) for task in tasks)])
        server.stop()
        self._triggers.stop()
        _, unfinished = await asyncio.wait(
            [*tasks, *(asyncio.create_task(each()) for each in drain)], timeout=DRAIN_SECONDS
        )
        if unfinished:
            self._console.line(f"not finished after {DRAIN_SECONDS} s, ending all the same")
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._triggers.close()
        for task in tasks:
            if task.cancelled():
                raise HostError("a function has cancelled the task in which it ran")
            if task.done() and (fault := task.exception()):
                raise fault

    def _http(self, functions: list[Function], taken: socket.socket) -> tuple[Admin, HttpServer]:
        endpoints = self._triggers.endpoints
        has_no_home = self._plan.environ.get("AzureWebJobsDisableHomepage", "").lower() == "true"
        keys = self._keys(functions) if self._plan.enable_auth else None
        admin = Admin(
            functions=functions,
            run=functools.partial(run_by_hand, self._invoker),
            keys=keys,
            status={"id": "devhost", "state": "Running", "version": "4", "errors": []},
            routes=None if has_no_home else endpoints,
        )
        app = HttpApp(endpoints=endpoints, invoker=self._invoker, admin=admin, keys=keys)
        return admin, HttpServer(app, taken, drain_seconds=DRAIN_SECONDS)

    def _keys(self, functions: list[Function]) -> Keys:
        keys = make_keys((each.metadata.name for each in functions), self._plan.environ)
        self._console.plain(f"key master  {keys.master}")
        self._console.plain(f"key host  {keys.host}")
        for name, key in keys.functions.items():
            self._console.plain(f"key function {name}  {key}")
        return keys

    def _signalled(self) -> None:
        if self._stop.is_set():
            # Nothing is cleaned up: whoever asks twice does not want to wait.
            os._exit(_ENDED_AT_ONCE)
        self._stop.set()
        running = self._invoker.running
        self._console.line(f"stopping: {running} running; once more to end at once")

    def _report(self, report: Report) -> None:
        short = report.invocation_id[:8]
        start = f"{report.name:<{self._width}}"
        took = f"{report.milliseconds:.0f} ms  {short}"
        if report.fault is None:
            if log.shows_successes(report.name, self._plan.options.log_levels):
                self._console.line(f"{start}  ok  {took}")
            return
        text = " ".join(report.text.split())
        self._console.line(f"{start}  FAILED  {took}  {text}")
        if trace := app_traceback(report.fault):
            self._console.trouble(trace)


async def _failure(task: asyncio.Task[None]) -> None:
    """Wait until *task* fails; for ever, if it does not."""
    await asyncio.wait([task])
    if not task.cancelled() and not task.exception():
        await asyncio.Event().wait()


async def _first(waits: list[Coroutine[Any, Any, object]]) -> None:
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()


def _nothing_in(root: Path) -> str:
    if (root / "function_app.py").exists():
        return "no functions: function_app.py is the v2 programming model, this host knows v1 only"
    return f"no functions: no folder in {root} has a function.json"


def _thread_count(plan: Plan, console: Console) -> int | None:
    text = plan.environ.get(_THREADS)
    if text is None:
        return None
    if text.strip().isdecimal() and int(text) > 0:
        return int(text)
    console.line(
        f"WARNING setting {_THREADS} is {text!r}, no number from 1 on: Python's default is used"
    )
    return None
