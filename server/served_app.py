"""Composes the app of a server: on a home, with its settings, on the loop that it serves from."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import partial
from typing import Any

from server import routes
from server.azure_accounts import also_to_queues
from server.blobs import answer_blob
from server.environment import CLIENT_ADDRESS
from server.home import Home
from server.leased_pusher import LeasedPusher
from server.own_work import RETURN_MEMORY
from server.routes import To
from server.worker import Worker
from shared.adapters.awake_clock import AwakeClock
from shared.adapters.threads import SystemThreads
from shared.app import App
from shared.arm import arm_json
from shared.clock import SystemClock
from shared.engine.operations.console_files import ConsoleFiles
from shared.engine.ports import Pusher
from shared.errors import TooLarge
from shared.events import publish_http
from shared.http import HttpAnswer, HttpRequest
from shared.once import once
from shared.settings import Settings
from shared.watched_clock import WatchedClock
from shared.wiring import process, web_routes
from shared.wiring.outbound import SystemOutbound

_THREADS = 32  # for requests that wait for storage, or for an endpoint's handshake


class ServedApp:
    """The app on *home*; it answers requests on the event loop, which waits for none of them."""

    def __init__(
        self, settings: Settings, home: Home, clock: WatchedClock, threads: SystemThreads
    ) -> None:
        self.settings = replace(settings, client_ip_header=CLIENT_ADDRESS)
        self.home = home
        self.clock = clock
        self.threads = threads
        self.chance = process.SystemChance()
        self.awake = AwakeClock()
        self.has_console = settings.console
        self._off_loop = threads.pool("requests", _THREADS)

    async def answer(self, request: HttpRequest, path: str, by: str = "") -> HttpAnswer:
        """Answer *request*; *path* is its decoded one, *by* who asks within this process."""
        found = routes.find(request.method, path)
        if found is None:
            return HttpAnswer(status=404)
        to, params = found
        request = replace(request, params=params)
        if to is To.PUBLISHING:
            return await self.publish(request)
        return await self._off_loop(partial(self._use_case(to, by), request))

    def _use_case(self, to: To, by: str) -> Callable[[HttpRequest], HttpAnswer]:
        if to is To.MANAGING:
            return partial(self.app.manage.run, by=by)
        if to is To.BLOBS:
            return partial(answer_blob, self.app)
        return partial(web_routes.answer, self)

    def too_large(self, request: HttpRequest, path: str, limit: int) -> HttpAnswer:
        """Refuse a body that was not read, in the form of whoever would have answered."""
        error = TooLarge(f"The body of the request has more than {limit} bytes.")
        found = routes.find(request.method, path)
        if found and found[0] is To.PUBLISHING:
            request = replace(request, params=found[1])
            return publish_http.error_answer(request, error, self.chance.secret_id())
        return arm_json.error_answer(error)

    # ── What `web_routes.Served` asks for ──

    async def publish(self, request: HttpRequest) -> HttpAnswer:
        return await self.app.publish.run(request)

    def manage(self, request: HttpRequest) -> HttpAnswer:
        return self.app.manage.run(request)

    def refusal(self, request: HttpRequest) -> None:
        """Nothing: with wrong settings no server starts."""

    def prepare(self) -> None:
        """Do nothing: the server has prepared its home before it serves."""

    def on_loop(self, coroutine: Coroutine[Any, Any, HttpAnswer], /) -> HttpAnswer:
        return self.threads.on_loop(coroutine)

    @once
    def app(self) -> App:
        return App(
            settings=self.settings,
            store=lambda: self.home.store,
            outbound=lambda: self.outbound,
            clock=self.clock,
            threads=self.threads,
            chance=self.chance,
        )

    @once
    def outbound(self) -> SystemOutbound:
        return SystemOutbound(
            settings=self.settings,
            clock=self.clock,
            threads=self.threads,
            awake=self.awake,
            also_to_queues=self._as_leased,
        )

    def _as_leased(self, pusher: Pusher) -> Pusher:
        all_of_it = also_to_queues(self.settings, self.threads, pusher)
        return LeasedPusher(all_of_it, lambda: self.home.has_lease)

    @once
    def worker(self) -> Worker:
        return Worker(self.app, self.home, self.threads, also=[RETURN_MEMORY])

    @once
    def console_files(self) -> ConsoleFiles:
        return web_routes.read_console_files()


def new_clock() -> WatchedClock:
    """Return the clock of a process, which the home settles as it tells its time."""
    return WatchedClock(SystemClock().now, time.monotonic, awaits_storage=True)
