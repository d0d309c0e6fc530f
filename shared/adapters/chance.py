"""The chance of this machine."""

from __future__ import annotations

import random
import secrets
import uuid


class SystemChance:
    """Implements the port ``Chance``; what is secret comes from the operating system."""

    def __init__(self) -> None:
        self._random = random.Random()  # noqa: S311 - no secrets
        self.jitter = self._random.random

    def id(self) -> str:
        return str(uuid.UUID(int=self._random.getrandbits(128), version=4))

    def secret_id(self) -> str:
        return str(uuid.uuid4())

    def secret(self, size: int) -> bytes:
        return secrets.token_bytes(size)
