"""Runs the host: loads the functions, serves them and finishes what is in progress at the end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NoReturn

from devhost import log, settings
from devhost.errors import BadFunctionError, HostError, class_and_message
from devhost.functions import loader, metadata
from devhost.functions.host_module import HostModule
from devhost.functions.invoke import Invoker, Report
from devhost.functions.loader import Function, app_traceback
from devhost.http.admin import Admin
from devhost.http.app import BODY_LIMIT, BODY_LIMIT_SETTING, HttpApp
from devhost.http.server import HttpServer, reachable, reserved_port
from devhost.log import LineOutput
from devhost.settings import STORAGE
from devhost.storage.account import find_account
from devhost.triggers import Plan, Triggers

#: How long a stop waits for what is under way. The real host waits as long for requests only.
DRAIN_SECONDS = 30

#: How long the real host waits for messages; with `--ends-as-azure` for everything.
_AZURE_DRAIN_SECONDS = 10

_THREADS = "PYTHON_THREADPOOL_THREAD_COUNT"
_PUBLIC_URL = "PUSHGRID_PUBLIC_URL"
_FORCED = 130
_NO_SETTINGS = (
    f"{settings.FILE} is missing: `make setup` creates Pushgrid's; for an app of your own create "
    "one, or set the settings in the environment or with --env"
)


class Host:
    """Runs one app until it is stopped; *started* gets the lines of its start."""

    def __init__(self, plan: Plan, console: LineOutput, started: LineOutput) -> None:
        self._plan = plan
        self._console = console
        self._started = started
        self._stop = asyncio.Event()
        threads = _whole(_THREADS, 1, plan, started)
        body_limit = _whole(BODY_LIMIT_SETTING, 0, plan, started)
        self._body_limit = BODY_LIMIT if body_limit is None else body_limit
        self._threads = ThreadPoolExecutor(threads, "function")
        self._invoker = Invoker(
            threads=self._threads,
            timeout=plan.options.function_timeout,
            report=self._report,
        )
        self._triggers = Triggers(plan, self._invoker)
        self._module = HostModule(self._triggers.notify)
        self._width = 0
        self._faults: set[str] = set()

    async def run(self) -> None:
        """
        Serve until SIGINT or SIGTERM.

        Raises:
            HostError: the host cannot start or continue.
        """
        port, is_shared = self._plan.port, self._plan.shares_port
        with contextlib.ExitStack() as stack:
            reserved = reserved_port(port, self._plan.address, is_shared=is_shared)
            taken = stack.enter_context(reserved)
            functions = self._load()
            servers = []
            if self._plan.blob_events:
                servers.append(self._blobs(stack.enter_context(reserved_port(0))))
            loop = asyncio.get_running_loop()
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.add_signal_handler(number, self._signalled)
            await self._serve(functions, taken, servers)

    def _load(self) -> list[Function]:
        folders = metadata.folders(self._plan.root)
        self._width = max((len(each.name) for each in folders), default=0)
        loader.prepare(self._plan.root)
        self._module.install()
        functions = [function for each in folders if (function := self._load_one(each))]
        if not folders:
            self._started.plain(_nothing_in(self._plan.root))
        if self._faults and not (self._plan.root / settings.FILE).exists():
            self._started.plain(_NO_SETTINGS)
        return functions

    def _load_one(self, folder: Path) -> Function | None:
        try:
            function = loader.load(metadata.read(folder, self._plan.environ))
            is_disabled = function.metadata.disabled
            where = "disabled" if is_disabled else self._triggers.add(function)
        except BadFunctionError as fault:
            self._list_fault(folder.name, str(fault))
            return None
        self._list(folder.name, where)
        if function.fault and not is_disabled:
            # It is served, and each of its calls fails, as in the real host.
            self._list_fault(folder.name, function.fault, function.trace)
        return function

    def _list_fault(self, name: str, fault: str, trace: str = "") -> None:
        self._list(name, f"ERROR  {fault}")
        # A fault that several functions share is traced once.
        if trace and fault not in self._faults:
            self._console.error(trace)
        self._faults.add(fault)

    def _list(self, name: str, text: str) -> None:
        self._started.plain(f"  {name:<{self._width}}  {text}")

    def _blobs(self, taken: socket.socket) -> HttpServer:
        """Return what stands in front of the blob service, for clients of this machine alone."""
        if self._module.blob_changed is None:
            raise HostError("--blob-events: this app takes no events about blobs")
        from devhost.blobs.blob_proxy import BlobProxy  # for the few that ask for it

        account = find_account(STORAGE, self._plan.environ)
        proxy = BlobProxy(account, self._module.blob_changed)
        self._started.plain(f"blobs http://{reachable(taken.getsockname())}/{account.name}")
        return HttpServer(proxy, taken, drain_seconds=DRAIN_SECONDS)

    async def _serve(
        self, functions: list[Function], taken: socket.socket, others: Sequence[HttpServer]
    ) -> None:
        admin, server = self._http(functions, taken)
        servers = (server, *others)
        receiving = [asyncio.create_task(each.run()) for each in self._triggers.listeners]
        serving = [asyncio.create_task(each.serve()) for each in servers]
        timing = [asyncio.create_task(each.run()) for each in self._triggers.timers]
        tasks = [*serving, *receiving, *timing]
        for each in servers:
            await each.is_up.wait()
        self._started.plain(f"ready {server.scheme}://{reachable(taken.getsockname())}")
        # None of the tasks ends before it is stopped, unless it fails.
        stopped = asyncio.create_task(self._stop.wait())
        await asyncio.wait([stopped, *tasks], return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        for each in servers:
            each.stop()
        self._triggers.stop()
        drains = [admin.drain, *(each.drain for each in self._triggers.listeners)]
        if self._plan.ends_as_azure:
            await self._end_as_azure(receiving, tasks, drains)
        self._module.stop()
        finished = asyncio.create_task(finish(tasks, [*drains, self._module.end]))
        _, unfinished = await asyncio.wait([finished], timeout=DRAIN_SECONDS)
        if unfinished:
            self._console.line(f"Stopping: not everything finished in {DRAIN_SECONDS} s")
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._triggers.close()
        for task in tasks:
            if task.cancelled():
                raise HostError("a function cancelled one of the host's tasks")
            if task.done() and (fault := task.exception()):
                raise fault

    async def _end_as_azure(
        self,
        receiving: Sequence[asyncio.Task[None]],
        tasks: Sequence[asyncio.Task[None]],
        drains: Sequence[Callable[[], Awaitable[None]]],
    ) -> NoReturn:
        """
        End the process as the real host ends itself and its worker.

        What is being received is dropped, and what takes longer is cut off: their messages stay
        hidden. The app is called no more, and the exit code is 0 whatever the cause.
        """
        for task in tasks:
            if task.done() and not task.cancelled() and (fault := task.exception()):
                self._console.error(f"devhost: {fault}")
        for task in receiving:
            task.cancel()
        await asyncio.wait(
            [asyncio.create_task(finish(tasks, drains))], timeout=_AZURE_DRAIN_SECONDS
        )
        os._exit(0)

    def _http(self, functions: list[Function], taken: socket.socket) -> tuple[Admin, HttpServer]:
        endpoints = self._triggers.endpoints
        admin = Admin(
            functions=functions,
            run=self._triggers.run_by_hand if self._plan.starts_by_hand else None,
            routes=endpoints,
        )
        app = HttpApp(
            endpoints=endpoints,
            invoker=self._invoker,
            admin=admin,
            public_url=self._plan.environ.get(_PUBLIC_URL, ""),
            body_limit=self._body_limit,
        )
        return admin, HttpServer(
            app, taken, drain_seconds=DRAIN_SECONDS, certificate=self._plan.certificate
        )

    def _signalled(self) -> None:
        if self._stop.is_set():
            # Forced: nothing is cleaned up.
            os._exit(_FORCED)
        self._stop.set()
        if self._plan.shares_port:
            return  # The parent prints it once.
        count = self._invoker.running
        what = "1 invocation" if count == 1 else f"{count} invocations"
        self._console.line(f"Stopping ({what} running); press Ctrl-C again to force")

    def _report(self, report: Report) -> None:
        short = report.invocation_id[:8]
        start = f"{report.name:<{self._width}}"
        took = f"{report.milliseconds:.0f} ms  {short}"
        if report.fault is None:
            if log.shows_successes(report.name, self._plan.options.log_levels):
                self._console.line(f"{start}  ok  {took}")
            return
        text = " ".join(class_and_message(report.fault).split())
        self._console.line(f"{start}  FAILED  {took}  {text}")
        if trace := app_traceback(report.fault):
            self._console.error(trace)


async def finish(
    tasks: Sequence[asyncio.Task[None]], drains: Sequence[Callable[[], Awaitable[None]]]
) -> None:
    """Wait for the host's *tasks*, which may still receive something, and then for each *drain*."""
    await asyncio.wait(tasks)
    for drain in drains:
        await drain()


def _nothing_in(root: Path) -> str:
    if (root / "function_app.py").exists():
        return (
            "no functions: function_app.py is the v2 programming model; this host supports v1 only"
        )
    return f"no functions: no folder in {root} has a function.json"


def _whole(name: str, low: int, plan: Plan, console: LineOutput) -> int | None:
    text = plan.environ.get(name)
    if not text:
        return None
    if text.strip().isdecimal() and int(text) >= low:
        return int(text)
    console.line(f"WARNING setting {name} is not a number from {low} on: the default is used")
    return None
