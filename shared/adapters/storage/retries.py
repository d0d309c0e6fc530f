"""How often the SDK tries: few times and briefly, since whoever publishes waits for the answer."""

from __future__ import annotations

from typing import Any

from azure.core.exceptions import ServiceResponseTimeoutError
from azure.storage.queue import ExponentialRetry


class ShortRetries(ExponentialRetry):
    """
    At most three tries about a second apart, two where connecting fails: 16 seconds at the worst.

    Queues and blobs use it alike. A try that ended in a read timeout is the last: a storage that
    hangs once has used up the time of all three.
    """

    def __init__(self) -> None:
        super().__init__(
            initial_backoff=1,
            increment_base=1,
            random_jitter_range=1,
            retry_total=2,
            retry_connect=1,
        )

    def increment(
        self, settings: Any, request: Any, response: Any = None, error: Any = None
    ) -> bool:
        if isinstance(error, ServiceResponseTimeoutError):
            return False
        return super().increment(settings, request, response, error)
