"""
Composes settings, adapters and use cases: the entry points of the function folders.

Each use case is composed in a module that the first call imports: a function imports only what it
uses, for the sake of cold starts. Each part is built once per process.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shared.errors import InvalidSettings
    from shared.http import HttpAnswer, HttpRequest


def load_function() -> None:
    """Prepare the process as a function is loaded. Raises InvalidSettings with every fault."""
    if fault := load_http_function():
        raise fault


def load_http_function() -> InvalidSettings | None:
    """
    Prepare the process as an HTTP function is loaded: its event loop, garbage collection and log.

    Return the faults of the settings, with which it answers requests.
    """
    from shared.wiring import process, settings, worker_log

    process.threads().attach()
    process.collect_garbage_rarely()
    worker_log.print_what_the_host_drops()
    return settings.settings_fault()


def take_blob_changes() -> None:
    """Have the local host report what other programs do to the blobs of the app's account."""
    from shared.wiring import local_host

    local_host.at_blob_change(_blob_changed)


async def _blob_changed(blob: Mapping[str, Any]) -> None:
    from shared.wiring import timers

    await timers.blob_changed(blob)


async def publish(request: HttpRequest) -> HttpAnswer:
    """Answer a publish request, to a custom topic or a topic of a namespace."""
    from shared.wiring import preparing, publishing, settings, worker_log

    worker_log.begin_invocation()
    preparing.begin_preparation()
    if refusal := settings.publish_refusal(request):
        return refusal
    return await publishing.answer()(request)


async def deliver(body: bytes, queue: str) -> None:
    """Deliver a message of *queue*: ``deliveries`` or ``retries``."""
    from shared.engine.ports import Queue
    from shared.wiring import delivering, worker_log

    worker_log.begin_invocation()
    await delivering.deliver().run(body, Queue(queue))


def wake() -> None:
    from shared.wiring import preparing, timers

    preparing.begin_preparation()
    timers.wake().run()


def deadletter_timer() -> None:
    from shared.wiring import preparing, timers

    preparing.begin_preparation()
    timers.deadletter_timer().run()


def manage(request: HttpRequest) -> HttpAnswer:
    from shared.wiring import managing, preparing, settings

    preparing.begin_preparation()
    return settings.api_refusal(request) or managing.manage().run(request)


def web(request: HttpRequest) -> HttpAnswer:
    """Answer a request for sign-in, the console, status or a validation link."""
    from shared.wiring import preparing, web_routes

    preparing.begin_preparation()
    return web_routes.answer(request)
