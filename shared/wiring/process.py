"""What every use case is composed with: the settings, the time, new ids."""

from __future__ import annotations

import os
import random
import time
import uuid

from shared.adapters.storage.connection import Connection
from shared.clock import SystemClock
from shared.delivery.profiles import PROFILES
from shared.engine.manage.writing import backoff_seconds
from shared.errors import InvalidSettings
from shared.settings import Settings, from_environ
from shared.wiring.console import use_format
from shared.wiring.once import once

CLOCK = SystemClock()


@once
def settings() -> Settings:
    """Read the settings. Raises InvalidSettings with everything that is wrong."""
    found = from_environ(os.environ, frozenset(PROFILES))
    Connection(found.storage)  # raises as well, if it leads nowhere
    use_format(found.log_format)
    return found


@once
def settings_fault() -> InvalidSettings | None:
    """Return what is wrong with the settings, if anything is."""
    try:
        settings()
    except InvalidSettings as error:
        return error
    return None


def new_id() -> str:
    """Return an id that nobody else has."""
    return str(uuid.uuid4())


def backoff(lost: int) -> None:
    """Wait after *lost* races for a document."""
    time.sleep(backoff_seconds(lost, random.random()))  # noqa: S311 - no secret
