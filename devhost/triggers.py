"""Makes the endpoints, queue listeners and timers of an app, and runs a function by hand."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import platform
import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

from azure.functions.meta import Datum

from devhost.errors import BadFunctionError, InvocationError
from devhost.functions.invoke import Invoker
from devhost.functions.loader import Function
from devhost.functions.metadata import HttpTrigger, QueueTrigger, TimerTrigger
from devhost.host_json import HostOptions
from devhost.http import app as http_app
from devhost.http.app import HttpFunction
from devhost.http.request import HostRequest
from devhost.queue import message as queue_message
from devhost.queue.listener import QueueListener, poison_queue_name
from devhost.queue.storage import RestQueue
from devhost.settings import STORAGE
from devhost.storage.account import AccountConnection, find_account
from devhost.storage.errors import LONGEST_OUTAGE

if TYPE_CHECKING:
    from devhost.timer.listener import TimerListener

_STORAGE_THREADS = 16
_HOST_ID_LENGTH = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The app to run and the options to run it with."""

    root: Path
    address: str
    port: int
    options: HostOptions
    environ: Mapping[str, str]
    invisibility: timedelta
    #: Key and certificate of https; without it the host serves http.
    certificate: Path | None
    #: Whether `/admin/functions/…` starts functions; anybody who reaches the address may.
    starts_by_hand: bool
    #: Whether other processes listen on the port as well.
    shares_port: bool
    #: Whether it ends as the real host does: without storage, and without waiting for the app.
    ends_as_azure: bool
    #: Whether changes by clients of the blob service are reported to the app.
    blob_events: bool


class Triggers:
    """The triggers of an app's functions."""

    def __init__(self, plan: Plan, invoker: Invoker) -> None:
        self._plan = plan
        self._invoker = invoker
        self._threads = ThreadPoolExecutor(_STORAGE_THREADS, "storage")
        self._account = functools.cache(functools.partial(find_account, environ=plan.environ))
        self._longest_outage = LONGEST_OUTAGE if plan.ends_as_azure else inf
        self._queues: list[RestQueue] = []
        self.endpoints: list[HttpFunction] = []
        self.listeners: list[QueueListener] = []
        self.timers: list[TimerListener] = []

    def add(self, function: Function) -> str:
        """
        Add *function*'s trigger and return a line about it, such as its route or schedule.

        Raises:
            BadFunctionError: it cannot be served.
        """
        trigger = function.metadata.trigger
        match trigger:
            case HttpTrigger():
                endpoint = http_app.endpoint(function, self._plan.options.route_prefix)
                self.endpoints.append(endpoint)
                return f"http   {endpoint}"
            case QueueTrigger():
                return self._add_listener(function, trigger)
            case TimerTrigger():
                return self._add_timer(function, trigger)

    def notify(self, queue: str) -> None:
        """Poll *queue* now, in whichever account it is: a message has been put on it."""
        for listener in self.listeners:
            if listener.queue == queue:
                listener.notify()

    def stop(self) -> None:
        """Start no more invocations; those in progress are finished."""
        for listener in self.listeners:
            listener.stop()
        for timer in self.timers:
            timer.stop()

    def close(self) -> None:
        """Release threads and connections."""
        for queue in self._queues:
            queue.close()
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def run_by_hand(self, function: Function, text: str) -> None:
        """Call *function* with *text* as its input, for queues a body without id and times."""
        metadata: dict[str, Datum] | None = None
        match function.metadata.trigger:
            case QueueTrigger(binary=binary):
                datum, metadata = queue_message.body_datum(text.encode(), binary=binary), {}
            case HttpTrigger():
                url = f"/admin/functions/{function.metadata.name}"
                request = HostRequest(method="POST", path=url[1:], url=url, headers={}, query={})
                datum = request.datum({}, text.encode())
            case TimerTrigger():
                from devhost.timer.listener import timer_datum

                datum = timer_datum(None, past_due=False)
        # A failure has been reported, and the client has its answer.
        with contextlib.suppress(InvocationError):
            await self._invoker.invoke(function, datum, metadata)

    def _add_listener(self, function: Function, trigger: QueueTrigger) -> str:
        account = self._account(trigger.connection)
        poison = poison_queue_name(trigger.queue)
        listener = QueueListener(
            function=function,
            source=self._queue(account, trigger.queue),
            poison=self._queue(account, poison) if poison else None,
            options=self._plan.options.queues,
            invoke=self._invoker.invoke,
            invisibility=self._plan.invisibility,
            longest_outage=self._longest_outage,
        )
        self.listeners.append(listener)
        return f"queue  {trigger.queue}"

    def _queue(self, account: AccountConnection, name: str) -> RestQueue:
        queue = RestQueue(account, name, self._threads)
        self._queues.append(queue)
        return queue

    def _add_timer(self, function: Function, trigger: TimerTrigger) -> str:
        # Slow to import, and an app without timers does not need them.
        from devhost.timer.listener import TimerListener
        from devhost.timer.storage import TimerStorage

        account = self._account(STORAGE)
        if not account.blob_url:
            raise BadFunctionError(f"setting {STORAGE} has no address of the blob service")
        name, lock = function.metadata.name, self._plan.options.lock
        storage = TimerStorage(account, _host_id(self._plan), name, lock, self._threads)
        self.timers.append(
            TimerListener(
                function=function,
                storage=storage,
                recovery=lock.recovery_polling_interval,
                invoke=self._invoker.invoke,
                longest_outage=self._longest_outage,
            )
        )
        return f"timer  {trigger.schedule}"


def _host_id(plan: Plan) -> str:
    given = plan.environ.get("AzureFunctionsWebHost__hostid")
    if given:
        return given.lower()
    digest = hashlib.sha256(os.fsencode(plan.root)).hexdigest()[:10]
    machine = re.sub(r"[^a-z0-9]", "", platform.node().lower()) or "local"
    return f"{machine[: _HOST_ID_LENGTH - len(digest) - 1]}-{digest}"
