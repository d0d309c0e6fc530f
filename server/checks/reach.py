"""Checks that an endpoint can be reached from here, as a delivery would reach it."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from server.checks.finding import Finding, doubtful, good
from server.served_app import new_clock
from shared.adapters.awake_clock import AwakeClock
from shared.adapters.threads import SystemThreads
from shared.http import Answered, Exchange, Failure, OutboundRequest
from shared.settings import Settings
from shared.subscriptions.destination import url_fault
from shared.wiring.outbound import SystemOutbound

_WHAT = "endpoint"
_TIMEOUT = timedelta(seconds=10)
_REMEDIES = {
    Failure.NOT_ALLOWED: "If it is yours, allow its network in PUSHGRID_ALLOWED_NETWORKS.",
    Failure.RESOLUTION: "Correct its name, or name the servers that know it in "
    "PUSHGRID_NAME_SERVERS.",
    Failure.TLS: "Correct its certificate, or name its authority in PUSHGRID_CA_BUNDLE.",
    Failure.MALFORMED: "Is this the port of a web server?",
}
_OTHERWISE = "Start it, and open the firewalls between it and this machine."


def check_endpoint(url: str, settings: Settings) -> Finding:
    """Send OPTIONS to *url*, as a delivery goes; any answer will do."""
    if fault := url_fault(url, allow_http=settings.allow_http):
        return doubtful(_WHAT, fault, "Name a URL that an event subscription may have.")
    return judge_exchange(asyncio.run(_ask(url, settings)))


def judge_exchange(exchange: Exchange) -> Finding:
    """Judge what came of a request."""
    if isinstance(exchange, Answered):
        took = f"{exchange.seconds:.2f} s"
        return good(_WHAT, f"answered OPTIONS with {exchange.status} after {took}")
    said = f"{exchange.failure.value}: {exchange.detail}" if exchange.detail else exchange.failure
    return doubtful(_WHAT, said, _REMEDIES.get(exchange.failure, _OTHERWISE))


async def _ask(url: str, settings: Settings) -> Exchange:
    threads = SystemThreads()
    threads.attach()
    outbound = SystemOutbound(
        settings=settings, clock=new_clock(), threads=threads, awake=AwakeClock()
    )
    try:
        return await outbound.pusher.send(OutboundRequest("OPTIONS", url, {}, b""), _TIMEOUT)
    finally:
        outbound.stop()
