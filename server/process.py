"""
Runs a server from its first check to its end.

Signals: SIGHUP reads certificate and file again. The first SIGTERM or SIGINT ends it in order:
readiness fails, what is not being pushed is handed back, messages under way are delivered while
requests are still answered, then requests under way are answered, and what is in memory is stored,
each within its bound. A second one ends it at once: what was under way comes again after the next
start.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from socket import socket
from typing import NamedTuple, Protocol

import uvloop

from server import azure_accounts, storage_kinds
from server.data_folder import admin_key, check_folder, drop_admin_key, lost, take_folder
from server.environment import (
    CLIENT_ADDRESS,
    UNUSED,
    read_server_settings,
    with_secrets,
)
from server.failure import CannotStart
from server.home import Home, HomeFactory
from server.http.asgi import AsgiApp
from server.http.connections import ConnectionLimits
from server.http.front import HttpFront
from server.http.reading import RequestReader
from server.log import begin_log
from server.options import (
    ServerOptions,
    bind,
    check_admin_key,
    check_exposure,
    load_tls,
    port_refused,
    url_of,
)
from server.sd_notify import READY, STOPPING, ServiceManager
from server.served_app import ServedApp, new_clock
from server.tls import ServerTls
from server.worker import DELIVERING_SECONDS, HANDING_SECONDS, STORING_SECONDS
from shared import telemetry
from shared.adapters.threads import SystemThreads
from shared.engine.ports import OffLoop, Table
from shared.errors import InvalidSettings, StorageUnavailable
from shared.settings import NAMES, Settings
from shared.wiring import process
from shared.wiring.settings import log_doubtful_settings

#: Exit codes; a second signal's is 128 and its number, as of a process that it kills.
ENDED, BROKE, REFUSED = 0, 1, 2

_MOST_CONNECTIONS = 4096
_ANSWERING_SECONDS = 5.0  # at the end, for requests
#: Seconds that an end in order takes at most.
LONGEST_END = HANDING_SECONDS + DELIVERING_SECONDS + _ANSWERING_SECONDS + 2 * STORING_SECONDS
_PORT_TRIES = 30  # in 3 s
_PRIVATE = 0o077
_ADMIN_KEY = NAMES["admin_key"]


class Beside(Protocol):
    """What runs beside the app, such as the application of a file; called on threads."""

    def before_deliveries(self, app: ServedApp) -> None:
        """Do what has to be done before the first delivery. What it raises ends the server."""

    def begin(self, app: ServedApp) -> None:
        """Begin, and return when the server may be ready."""

    def reload(self) -> None:
        """Do it again, since the server got SIGHUP; returns at once, on the event loop."""


class Prepared(NamedTuple):
    """All that a server is started with, checked; nothing runs yet."""

    options: ServerOptions
    environ: Mapping[str, str]  # with the secrets, wherever they stood
    settings: Settings
    tls: ServerTls | None
    taken: socket
    is_new_folder: bool = True  # else an earlier server has had it

    @property
    def url(self) -> str:
        """Where this machine reaches the server."""
        return url_of(self.taken, is_tls=self.tls is not None)


def prepare(
    options: ServerOptions,
    environ: Mapping[str, str],
    read_file: Callable[[Settings], object] | None = None,
) -> Prepared:
    """
    Check what a server is to be started with, and take folder and port.

    *read_file* reads the configuration file, if there is one, for these settings.

    Raises:
        CannotStart: something is wrong; nothing was started.
    """
    _open_standard_streams()
    environ = with_secrets(environ)
    settings = read_server_settings(environ)
    check_exposure(options, settings)
    check_admin_key(options, settings)
    tls = load_tls(options)
    if options.data:
        check_folder(options.data)
        if not options.is_unsafe_folder_allowed:
            storage_kinds.check_kind(options.data, storage_kinds.read_mounts())
    if read_file:
        read_file(settings)
    taken = bind(options.host, options.port, again=_PORT_TRIES)
    os.umask(_PRIVATE)
    is_new = True
    try:
        if options.data:
            is_new = take_folder(options.data)
            key = settings.admin_key or admin_key(options.data)
            settings = read_server_settings({**environ, _ADMIN_KEY: key})
    except CannotStart:
        taken.close()
        raise
    return Prepared(options, environ, settings, tls, taken, is_new)


def serve(
    prepared: Prepared,
    make_home: HomeFactory,
    beside: Beside,
    on_ready: Callable[[str], object],
) -> int:
    """Serve until a signal or a fault of the home ends it; return the exit code."""
    begin_log(prepared.settings.log_format)
    log_doubtful_settings(prepared.environ)
    for name in (each for each in UNUSED if prepared.environ.get(each)):
        detail = "'pushgrid serve' does not use it: it has its own data and timers"
        telemetry.warning("setting.unused", setting=name, detail=detail)
    folder = prepared.options.data
    if folder and (fault := storage_kinds.fault_at(folder, storage_kinds.read_mounts())):
        telemetry.warning("folder.unsafe", folder=str(folder), detail=fault)
    process.collect_garbage_rarely()
    threads = SystemThreads()
    clock = new_clock()
    home = make_home(prepared.settings, clock, threads)
    app = ServedApp(prepared.settings, home, clock, threads)
    server = RunningServer(
        prepared, app, beside, on_ready, ServiceManager(os.environ.get("NOTIFY_SOCKET"))
    )
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(server.run())


@dataclass(slots=True)
class RunningServer:
    """A server that runs: its state, and the order in which it begins and ends."""

    prepared: Prepared
    app: ServedApp
    beside: Beside
    on_ready: Callable[[str], object]
    manager: ServiceManager
    _ending: asyncio.Event = field(default_factory=asyncio.Event)
    _exit_code: int = ENDED
    _not_ready: str | None = "starting"
    _reload: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def home(self) -> Home:
        return self.app.home

    async def run(self) -> int:
        """Begin, serve, and end; return the exit code."""
        self._take_signals()
        self.app.threads.attach()
        worker = self.app.worker  # the app is composed: it records what the home says of the clock
        try:
            await worker.open()
        except InvalidSettings as error:
            raise CannotStart(error.message) from None
        settings = self.prepared.settings
        if folder := self.prepared.options.data:
            if self.home.is_new and not self.prepared.is_new_folder:
                telemetry.warning("store.new", detail=lost(folder))
            drop_admin_key(folder, {settings.admin_key, settings.admin_key_2})
        try:
            await asyncio.to_thread(self._tell_unknown_accounts)
            await asyncio.to_thread(self._tell_doubtful_tls)
            await self._serve()
        finally:
            await worker.close()
        return self._exit_code

    async def _serve(self) -> None:
        app = self.app
        off_loop = app.threads.pool("beside", 1)
        await off_loop(partial(self.beside.before_deliveries, app))
        tls = self.prepared.tls
        front = HttpFront(self._asgi(), _limits(), tls.context if tls else None)
        process.spare_what_lasts()
        await self._listen(front)
        app.worker.begin()
        tasks = [
            asyncio.create_task(each)
            for each in (
                self._watch_home(),
                self._follow_reloads(),
                self._become_ready(off_loop),
            )
        ]
        for task in tasks:
            task.add_done_callback(self._end_if_failed)
        await self._ending.wait()
        self._not_ready = "stopping"
        self.manager.tell(STOPPING)
        telemetry.info("server.stopping", messages=app.worker.under_way)
        for task in tasks:
            task.cancel()
        await self._end(front)

    async def _end(self, front: HttpFront) -> None:
        left = await self.app.worker.finish()
        await front.stop(_ANSWERING_SECONDS)
        await self.app.worker.store()
        telemetry.info("server.stopped", unfinished=left)

    async def _listen(self, front: HttpFront) -> None:
        options = self.prepared.options
        try:
            await front.start(self.prepared.taken)
        except OSError as error:  # who bound it at the same moment listens
            raise port_refused(options.host, options.port, error) from None

    async def _become_ready(self, off_loop: OffLoop) -> None:
        await off_loop(partial(self.beside.begin, self.app))
        self._not_ready = None
        telemetry.info("server.ready", url=self.prepared.url)
        self.on_ready(self.prepared.url)
        self.manager.tell(READY)

    async def _watch_home(self) -> None:
        self._break(await self.home.broken())

    def _end_if_failed(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()):
            self._break(f"{type(error).__name__}: {error}")

    def _break(self, why: str) -> None:
        telemetry.error("server.broken", detail=why)
        self._exit_code = BROKE
        self._ending.set()

    async def _follow_reloads(self) -> None:
        while True:
            await self._reload.wait()
            self._reload.clear()
            self.manager.tell_reloading()
            try:
                if self.prepared.tls:
                    await asyncio.to_thread(self.prepared.tls.reload)
                    telemetry.info("tls.reloaded")
                    await asyncio.to_thread(self._tell_doubtful_tls)
            except CannotStart as error:
                telemetry.error("tls.not_reloaded", detail=str(error))
            self.beside.reload()
            self.manager.tell(READY)

    def _asgi(self) -> AsgiApp:
        options = self.prepared.options
        reader = RequestReader(proxies=options.proxies, client_header=CLIENT_ADDRESS)
        return AsgiApp(
            app=self.app,
            reader=reader,
            not_ready=lambda: self._not_ready or self.home.store.fault or None,
            body_limit=_limits().body_bytes,
            is_guarded=options.is_guarded,
        )

    def _tell_unknown_accounts(self) -> None:
        try:
            stored = self.home.store.documents.list_all(Table.EVENT_SUBSCRIPTIONS)
        except StorageUnavailable as error:  # The first read of a start.
            raise CannotStart(self.home.refusal_of(error).message) from None
        for account, detail in azure_accounts.unknown(stored, self.prepared.settings).items():
            telemetry.warning("account.unknown", account=account, detail=detail)

    def _tell_doubtful_tls(self) -> None:
        tls = self.prepared.tls
        if tls and (detail := tls.doubt(self.app.clock.now())):
            telemetry.warning("tls.doubtful", detail=detail)

    def _take_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._end_by, number)
        loop.add_signal_handler(signal.SIGHUP, self._reload.set)

    def _end_by(self, number: signal.Signals) -> None:
        if self._ending.is_set():
            if sys.stderr:  # it may have been closed by the caller
                sys.stderr.flush()
            os._exit(128 + number)
        self._ending.set()


def _open_standard_streams() -> None:
    """Give what the caller has closed to nobody else: libuv aborts when such a one is closed."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest one that is free


def _limits() -> ConnectionLimits:
    # Requests to endpoints have half of the descriptors, their idle connections a quarter.
    return ConnectionLimits(min(_MOST_CONNECTIONS, process.descriptors() // 8))
