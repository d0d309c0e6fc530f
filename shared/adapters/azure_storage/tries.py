"""Bounds how long one request to storage takes, with all its tries, whatever storage says."""

from __future__ import annotations

import random
from collections.abc import Callable
from http import HTTPStatus

from azure.core.exceptions import (
    AzureError,
    ClientAuthenticationError,
    ServiceRequestTimeoutError,
    ServiceResponseTimeoutError,
)

LIMIT_SECONDS = 16.0  # of a request; a publisher must hear of a failure in time to try again
CONNECT_SECONDS = 5.0  # of a try
READ_SECONDS = 10.0  # of a try, until the answer begins
TRIES = 3
_TRIES_FOR_TOKEN = 2  # Each may take 7 seconds, whatever is left.
_PAUSE = 1 / 8  # at most, of the limit
_LASTING = (HTTPStatus.NOT_IMPLEMENTED, HTTPStatus.HTTP_VERSION_NOT_SUPPORTED)
_PASSING = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS)

LIMIT = "limit_seconds"  # the option of a request that has another limit
TIME = "time_of_tries"  # the option of a try: the `Tries` that it is one of


class Tries:
    """
    The tries of one request, which ends within *limit* seconds of *clock*: up to three, about a
    second apart.

    What a ``Retry-After`` asks for is ignored. A try without an answer in time is repeated *hangs*
    times: storage may have done it, so that must do no harm.
    """

    def __init__(self, *, hangs: int, limit: float, clock: Callable[[], float]) -> None:
        self._hangs = hangs
        self._limit = limit
        self._clock = clock
        self._ends_at = clock() + limit
        self._made = 0

    def seconds_left(self) -> float:
        """
        Return the seconds until the request has to end.

        Raises:
            ServiceRequestTimeoutError: there are none.
        """
        left = self._ends_at - self._clock()
        if left <= 0:
            raise ServiceRequestTimeoutError("the time for the request is over")
        return left

    def pause_after(self, outcome: AzureError | int) -> float | None:
        """
        Return the seconds until the next try; ``None``: the one that ended was the last.

        It ended with a fault or a status.
        """
        self._made += 1
        most = TRIES
        if isinstance(outcome, int):
            is_passing = _is_passing(outcome)
        else:
            self._hangs -= isinstance(outcome, ServiceResponseTimeoutError)
            is_passing = self._hangs >= 0
            if isinstance(outcome, ClientAuthenticationError):
                most = _TRIES_FOR_TOKEN
        pause = random.uniform(0, self._limit * _PAUSE)  # noqa: S311 - no secret
        is_in_time = self._clock() + pause < self._ends_at
        return pause if is_passing and self._made < most and is_in_time else None


def _is_passing(status: int) -> bool:
    return status in _PASSING or (
        status >= HTTPStatus.INTERNAL_SERVER_ERROR and status not in _LASTING
    )
