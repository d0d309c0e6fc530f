"""Lookups of names for the tests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from ipaddress import ip_address
from threading import Thread

from shared.adapters.http.outbound_guard import Address
from shared.adapters.http.resolver import Lookup, NameServers
from testbed.name_server import FOUND, running_name_server
from tests.integration.push.on_loop import run


def looked_up(find: Callable[[str], Sequence[Address]]) -> Lookup:
    """Return a lookup that calls *find* on a thread of its own."""

    async def lookup(host: str) -> Sequence[Address]:
        found: Future[Sequence[Address]] = Future()
        found.set_running_or_notify_cancel()  # from now on nobody can cancel it

        def run() -> None:
            try:
                found.set_result(find(host))
            except (OSError, MemoryError) as error:
                found.set_exception(error)

        Thread(target=run, daemon=True).start()
        return await asyncio.wrap_future(found)

    return lookup


def always_at(*addresses: str) -> Lookup:
    """Return a lookup by which every name has these addresses."""
    return looked_up(lambda _: [ip_address(each) for each in addresses])


@contextmanager
def name_servers() -> Iterator[NameServers]:
    """Look names up at a server that is silent about those with "silent" in them."""
    with running_name_server(lambda name: None if "silent" in name else FOUND) as port:
        made = NameServers([f"127.0.0.1:{port}"])
        try:
            yield made
        finally:
            run(made.close())
