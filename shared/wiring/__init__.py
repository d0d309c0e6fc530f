"""
Settings to adapters to use cases: what the function folders call.

Each use case is composed in a module of its own, which is imported by the first call: a function
imports only what it uses, for the sake of cold starts. Everything is built once per process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from shared.engine.timers.last_runs import Timed
    from shared.http import HttpAnswer, HttpRequest
    from shared.settings import Settings


class Answers(Protocol):
    """What answers requests. Where the settings are wrong it says so, and does nothing else."""

    def run(self, request: HttpRequest) -> HttpAnswer:
        """Answer *request*; never raises."""


def settings() -> Settings:
    """Read the settings. Raises InvalidSettings with everything that is wrong."""
    from shared.wiring import console, process

    console.print_what_the_host_drops()
    return process.settings()


def look_at_settings() -> None:
    """Read the settings for functions that answer somebody, if need be what is wrong with them."""
    from shared.wiring import console, process

    console.print_what_the_host_drops()
    process.settings_fault()


def publish() -> Answers:
    """Return the data plane of custom topics and of topics of namespaces."""
    from shared.wiring import misconfigured, publishing

    return misconfigured.publish() or publishing.publish()


async def delivering(body: bytes) -> None:
    """Deliver one queue message; return when its invocation can end."""
    from shared.wiring import deliveries

    await deliveries.run(body)


def wake() -> Timed:
    """Return the timer job for long waits."""
    from shared.wiring import timers

    return timers.wake()


def deadletter_timer() -> Timed:
    """Return the jobs of the dead-letter timer."""
    from shared.wiring import timers

    return timers.deadletter_timer()


def manage() -> Answers:
    """Return the management API."""
    from shared.wiring import managing, misconfigured

    return misconfigured.api() or managing.manage()


def status() -> Answers:
    """Return what tells how things are."""
    from shared.wiring import misconfigured, reporting

    return misconfigured.api() or reporting.status()


def validate() -> Answers:
    """Return the use case of validation links."""
    from shared.wiring import misconfigured, validating

    return misconfigured.api() or validating.validate()
