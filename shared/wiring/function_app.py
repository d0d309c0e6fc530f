"""
The app of a process of Azure Functions: what it is made of, and the entry points of its functions.

What a function does not need, none of its calls imports: cold starts.
"""

from __future__ import annotations

import os
import time
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from shared import telemetry
from shared.adapters.awake_clock import AwakeClock
from shared.adapters.threads import SystemThreads
from shared.app import App
from shared.clock import SystemClock
from shared.errors import InvalidSettings
from shared.http import HttpAnswer, HttpRequest
from shared.once import once
from shared.settings import Settings
from shared.watched_clock import WatchedClock
from shared.wiring import local_host, process, worker_log
from shared.wiring.settings import log_doubtful_settings, read_settings

if TYPE_CHECKING:
    from shared.adapters.azure_storage.store import AzureStore
    from shared.adapters.http.http_pusher import HttpPusher
    from shared.engine.delivering.deliver import Deliver
    from shared.engine.operations.console_files import ConsoleFiles
    from shared.engine.ports import Pusher
    from shared.wiring.outbound import SystemOutbound


class FunctionApp:
    """The app on the settings of the environment, of which each part is built at its first use."""

    def __init__(self) -> None:
        self.threads = SystemThreads()
        self.chance = process.SystemChance()
        self.awake = AwakeClock()
        self.clock = WatchedClock(SystemClock().now, time.monotonic, awaits_storage=True)

    def load(self) -> None:
        """Prepare the process as a function is loaded. Raises InvalidSettings with every fault."""
        if fault := self.load_http():
            raise fault

    def load_http(self) -> InvalidSettings | None:
        """
        Prepare the process as an HTTP function is loaded: event loop, garbage collection and log.

        Return the faults of the settings, with which it answers requests.
        """
        self.threads.attach()
        process.collect_garbage_rarely()
        worker_log.print_what_the_host_drops()
        return self.settings_fault

    def take_blob_changes(self) -> None:
        """Have the local host report what other programs do to the blobs of the app's account."""
        local_host.at_blob_change(self._blob_changed)

    async def publish(self, request: HttpRequest) -> HttpAnswer:
        """Answer a publish request, to a custom topic or a topic of a namespace."""
        worker_log.begin_invocation()
        self.prepare()
        if fault := self._logged_fault:
            from shared.engine.operations.misconfigured import publish_answer

            return publish_answer(request, fault, self.chance.secret_id())
        self.threads.attach()  # The first request may be the first call on the loop.
        return await self.app.publish.run(request)

    async def deliver(self, body: bytes, queue: str) -> None:
        """Deliver a message of *queue*: ``deliveries`` or ``retries``."""
        from shared.engine.ports import Queue

        worker_log.begin_invocation()
        self._write_counts()
        await self.delivering.run(body, Queue(queue))

    def wake(self) -> None:
        self.prepare()
        self.app.wake_timer.run()

    def write_dead_letters(self) -> None:
        self.prepare()
        self._logged_doubts  # noqa: B018 - they are, once
        self.app.deadletter_timer.run()

    def manage(self, request: HttpRequest) -> HttpAnswer:
        self.prepare()
        if refusal := self.refusal(request):
            return refusal
        self._logged_doubts  # noqa: B018 - they are, once
        return self.app.manage.run(request)

    def refusal(self, request: HttpRequest) -> HttpAnswer | None:
        """Answer an ARM client, or a request for status or a link, if the settings are wrong."""
        if fault := self._logged_fault:
            from shared.engine.operations.misconfigured import api_answer

            return api_answer(request, fault)
        return None

    @property
    def has_console(self) -> bool:
        """Whether the console is served: with wrong settings, too, since it shows them."""
        return self.settings_fault is not None or self.settings.console

    def on_loop(self, coroutine: Coroutine[Any, Any, HttpAnswer], /) -> HttpAnswer:
        """Have the event loop run *coroutine*; called on a thread."""
        return self.threads.on_loop(coroutine)

    def prepare(self) -> None:
        """Prepare storage in the background, once, unless the settings are wrong."""
        if self.settings_fault is None:
            with suppress(RuntimeError):  # No thread can be had: the next call begins it.
                self._prepared  # noqa: B018 - it is begun

    @once
    def settings(self) -> Settings:
        """The settings. Raises InvalidSettings with every fault."""
        found = read_settings(os.environ)
        worker_log.use_format(found.log_format)
        return found

    @once
    def settings_fault(self) -> InvalidSettings | None:
        try:
            self.settings  # noqa: B018 - it raises
        except InvalidSettings as error:
            return error
        return None

    @property
    def app(self) -> App:
        """The app, whose counts are written from its first use on."""
        self._write_counts()
        return self._app

    @once
    def _app(self) -> App:
        app = App(
            settings=self.settings,
            store=lambda: self.store,
            outbound=lambda: self.outbound,
            clock=self.clock,
            threads=self.threads,
            chance=self.chance,
        )
        local_host.at_stop(app.stop)
        local_host.at_end(app.end)
        return app

    @once
    def store(self) -> AzureStore:
        from shared.adapters.azure_storage.clients import StorageClients
        from shared.adapters.azure_storage.connection_setting import Service, connections_beside
        from shared.adapters.azure_storage.store import AzureStore

        own, named = self.settings.storage, self.settings.deadletter_accounts
        others = connections_beside(own, named).items()
        return AzureStore(
            StorageClients(own, answered=self.clock.storage_answered, clock=self.awake),
            self.threads,
            self.storage_pusher.send,
            others={
                name: StorageClients(each, services=[Service.BLOB], clock=self.awake)
                for name, each in others
            },
            visible=local_host.message_put,
        )

    @once
    def outbound(self) -> SystemOutbound:
        from shared.wiring.outbound import SystemOutbound

        return SystemOutbound(
            settings=self.settings,
            clock=self.clock,
            threads=self.threads,
            awake=self.awake,
            also_to_queues=self._also_to_queues,
        )

    @once
    def storage_pusher(self) -> HttpPusher:
        """What sends requests to storage on the event loop."""
        from shared.wiring.outbound import storage_pusher

        return storage_pusher(self.awake)

    def _also_to_queues(self, webhooks: Pusher) -> Pusher:
        from shared.adapters.azure_storage.queue_pusher import QueuePusher

        puts = self.store.message_puts(self.settings.queue_accounts)
        return QueuePusher(webhooks, self.storage_pusher, puts)

    @once
    def delivering(self) -> Deliver:
        deliver = self.app.deliver
        process.spare_what_lasts()
        return deliver

    @once
    def console_files(self) -> ConsoleFiles:
        from shared.wiring.web_routes import read_console_files

        return read_console_files()

    @once
    def _logged_fault(self) -> InvalidSettings | None:
        """What is wrong; the log has once what the answers don't quote."""
        fault = self.settings_fault
        for each in fault.faults if fault else ():
            telemetry.error("settings.invalid", detail=each.message)
        return fault

    @once
    def _prepared(self) -> None:
        self._begin("preparation")

    @once
    def _counted(self) -> None:
        self._begin("counts")

    def _write_counts(self) -> None:
        """Have counts written in the background, from the first call on that gets a thread."""
        with suppress(RuntimeError):
            self._counted  # noqa: B018 - it is begun

    def _begin(self, name: str) -> None:
        """
        Begin background work of the app on a thread of its own.

        Raises:
            RuntimeError: no thread can be had.
        """
        work = next(each for each in self._app.background if each.name == name)
        self.threads.begin(partial(work.run, self.threads.sleep))

    @once
    def _logged_doubts(self) -> bool:
        """Log doubts, during an invocation: the host drops lines of functions that are loaded."""
        log_doubtful_settings(os.environ)
        return True

    async def _blob_changed(self, blob: Mapping[str, Any]) -> None:
        """Publish what the local host reports of a blob: the members of ``WrittenBlob``."""
        from shared.events.notices import WrittenBlob

        await self.app.blob_changed(WrittenBlob(**blob))


APP = FunctionApp()
