"""
Settings to adapters to use cases: what the function folders call.

Each use case is composed in a module of its own, which is imported by the first call: a function
imports only what it uses, for the sake of cold starts. Everything is built once per process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shared.engine.manage.api import Manage
    from shared.engine.publish import Publish
    from shared.engine.status import Status
    from shared.engine.timer_runs import Timed
    from shared.engine.validate import Validate
    from shared.settings import Settings


def settings() -> Settings:
    """Read the settings. Raises InvalidSettings with everything that is wrong."""
    from shared.wiring import console, process

    console.print_what_the_host_drops()
    return process.settings()


def publish() -> Publish:
    """Return the data plane of custom topics and of topics of namespaces."""
    from shared.wiring import publishing

    return publishing.publish()


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


def manage() -> Manage:
    """Return the management API."""
    from shared.wiring import managing

    return managing.manage()


def status() -> Status:
    """Return what tells how things are."""
    from shared.wiring import reporting

    return reporting.status()


def validate() -> Validate:
    """Return the use case of validation links."""
    from shared.wiring import validating

    return validating.validate()
