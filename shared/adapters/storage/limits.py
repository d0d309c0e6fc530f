"""Bounds how long one request to storage takes, with all its tries, whatever storage says."""

from __future__ import annotations

from typing import Any

from azure.core.exceptions import ServiceRequestTimeoutError

from shared.adapters.awake_clock import awake_seconds

LIMIT_SECONDS = 16.0  # of a request; a publisher must hear of a failure in time to try again
CONNECT_SECONDS = 5.0  # of a try
READ_SECONDS = 10.0  # of a try, until the answer begins

LIMIT = "limit_seconds"  # the option of a request that has another limit
ENDS_AT = "ends_at"  # the option of a try: when its request has to end


def seconds_left(options: dict[str, Any]) -> float:
    """
    Take the end of a request from the *options* of a try; return the seconds until then.

    Raises:
        ServiceRequestTimeoutError: there are none.
    """
    left: float = options.pop(ENDS_AT) - awake_seconds()
    if left <= 0:
        raise ServiceRequestTimeoutError("the time for the request is over")
    return left
