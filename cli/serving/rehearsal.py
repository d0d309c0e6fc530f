"""Tries a file with a server's settings: on an empty deployment, which asks no endpoint."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from http import HTTPStatus
from ipaddress import ip_address
from urllib.parse import urlsplit

from cli.configuration import Change, Configuration, carry_out, plan
from cli.configuration.resources import SOURCES, ResourceId, WantedResource
from cli.configuration.source import FileFaults
from cli.serving.in_process import InProcess
from pushgrid.testing.memory import FakeClock, MemoryStore, off_loop
from server.environment import CLIENT_ADDRESS
from shared import telemetry
from shared.adapters.http.outbound_guard import OutboundGuard
from shared.adapters.sql.traits import SQL
from shared.adapters.threads import SystemThreads
from shared.app import App
from shared.clock import SystemClock
from shared.http import (
    Answered,
    Exchange,
    Failure,
    HttpAnswer,
    HttpRequest,
    LateAnswerHandler,
    NotAnswered,
)
from shared.http import OutboundRequest as Request
from shared.once import once
from shared.settings import Settings
from shared.watched_clock import WatchedClock
from shared.wiring.outbound import SystemOutbound, outbound_guard
from shared.wiring.process import SystemChance

_URL = "https://rehearsal.invalid"  # no endpoint's


def rehearse(wanted: Configuration, settings: Settings) -> None:
    """
    Return if a server with *settings* takes all of *wanted*, provided that endpoints consent.

    What refers to a resource that only the server may have is left out.

    Raises:
        FileFaults: it refuses something.
    """
    api = _empty_deployment(settings)
    done: list[Change] = []
    carry_out(api, plan(api, replace(wanted, resources=_complete(wanted))), done.append)
    if faults := [fault for each in done for fault in each.faults]:
        raise FileFaults(*faults)


def _complete(wanted: Configuration) -> tuple[WantedResource, ...]:
    """Return the resources that need nothing beside the file."""
    found: list[WantedResource] = []
    known: set[ResourceId] = set()
    for each in wanted.resources:  # what one needs comes before it
        if all(own in known or own.types[0] in SOURCES for own in each.needs):
            found.append(each)
            known.add(each.id.folded)
    return tuple(found)


def _empty_deployment(settings: Settings) -> InProcess:
    key = secrets.token_urlsafe(32)
    settings = replace(settings, admin_key=key, client_ip_header=CLIENT_ADDRESS)
    threads = SystemThreads()
    threads.on_loop = asyncio.run
    clock = WatchedClock(SystemClock().now, time.monotonic)
    store = MemoryStore(FakeClock(), off_loop, traits=SQL)
    store.account = settings.own_account
    outbound = _Consenting(settings=settings, clock=clock, threads=threads, awake=time.monotonic)
    app = App(
        settings=settings,
        store=lambda: store,
        outbound=lambda: outbound,
        clock=clock,
        threads=threads,
        chance=SystemChance(),
    )

    def answer(request: HttpRequest, _: str) -> HttpAnswer:
        with telemetry.lines_to(lambda _: None):  # nothing of it happens
            return app.manage.run(request)

    return InProcess(url=_URL, token=lambda: key, answer=answer)


class _Consenting(SystemOutbound):
    """Outbound to endpoints that consent at once; none is asked."""

    @once
    def pusher(self) -> _Consenting:
        return self

    @once
    def _guard(self) -> OutboundGuard:
        return outbound_guard(self._settings, self.app_addresses)

    async def send(
        self, request: Request, timeout: timedelta, late: LateAnswerHandler | None = None
    ) -> Exchange:
        """Grant the consent that *request* asks for, unless it is for an address that is closed."""
        del timeout, late
        asked = urlsplit(request.url)
        with suppress(ValueError):  # a name: nobody is asked for its addresses
            if closed := self._guard.refusal(ip_address(asked.hostname or ""), asked.port):
                return NotAnswered(Failure.NOT_ALLOWED, closed, 0.0)
        code = json.loads(request.body)[0]["data"]["validationCode"] if request.body else ""
        consent = json.dumps({"validationResponse": code}).encode()
        return Answered(HTTPStatus.OK, {"webhook-allowed-origin": "*"}, consent, 0.0)
