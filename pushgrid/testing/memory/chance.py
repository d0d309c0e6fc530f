"""Chance for tests."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable


class SeededChance:
    """Chance, the same in each run of a test; without jitter, unless a test gives some."""

    def __init__(self) -> None:
        self._ids = random.Random(0)
        self.jitter: Callable[[], float] = lambda: 0.0

    def id(self) -> str:
        return str(uuid.UUID(int=self._ids.getrandbits(128), version=4))

    def secret_id(self) -> str:
        return self.id()

    def secret(self, size: int) -> bytes:
        return self._ids.randbytes(size)
