"""What every use case is composed with: the settings, the time, new ids."""

from __future__ import annotations

import os
import random
import time
import uuid

from shared import telemetry
from shared.clock import SystemClock
from shared.delivery.profiles import PROFILES
from shared.engine.manage.writing import pause_after
from shared.settings import Settings, from_environ, unresolved
from shared.wiring.once import once

CLOCK = SystemClock()


@once
def settings() -> Settings:
    """Read the settings. Raises InvalidSettings with everything that is wrong."""
    return from_environ(os.environ, frozenset(PROFILES))


@once
def tell_unresolved() -> None:
    """
    Write an ERROR line for each setting that Key Vault has left unresolved.

    For use cases to call when they are composed, which is in an invocation: what is written while
    functions are loaded belongs to none, and the host throws it away.
    """
    for name in unresolved(os.environ):
        telemetry.error("setting.unresolved", setting=name)


def new_id() -> str:
    """Return an id that nobody else has."""
    return str(uuid.uuid4())


def rest(lost: int) -> None:
    """Wait after *lost* races for a document."""
    time.sleep(pause_after(lost, random.random()))  # noqa: S311 - no secret
