"""Runs the app in memory for tests: the fixture `pushgrid` of pytest (docs/testing.md)."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pushgrid.testing.deployment import Pushgrid
    from pushgrid.testing.driven_app import Refused, Unsettled
    from pushgrid.testing.subscriber import Answer, Attempt, Handler, Request
    from pushgrid.testing.topic import StorageAccount, Subscriber, Topic

_HOMES = {
    "Answer": "subscriber",
    "Attempt": "subscriber",
    "Handler": "subscriber",
    "Pushgrid": "deployment",
    "Refused": "driven_app",
    "Request": "subscriber",
    "StorageAccount": "topic",
    "Subscriber": "topic",
    "Topic": "topic",
    "Unsettled": "driven_app",
}
__all__ = [
    "Answer",
    "Attempt",
    "Handler",
    "Pushgrid",
    "Refused",
    "Request",
    "StorageAccount",
    "Subscriber",
    "Topic",
    "Unsettled",
]


def __getattr__(name: str) -> Any:
    # Late: pytest loads this package in each run, also where no test uses the fixture.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"pushgrid.testing.{_HOMES[name]}"), name)
