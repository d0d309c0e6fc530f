"""What the errors of the storage SDKs mean: nothing above the adapters sees them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TypeVar

from azure.core.exceptions import AzureError, HttpResponseError

from shared import telemetry
from shared.errors import StorageUnavailable

T = TypeVar("T")


@contextlib.contextmanager
def storage_errors(*, quiet: bool = False) -> Iterator[None]:
    """
    Turn whatever the SDK raises, and nobody has understood, into ``StorageUnavailable``.

    *quiet* leaves it to the caller to write a line.
    """
    try:
        yield
    except AzureError as error:
        # Not the error's text: it may hold a URL with its signature.
        if not quiet:
            telemetry.error(
                "storage.failed",
                error=type(error).__name__,
                status=getattr(error, "status_code", None),
                code=getattr(error, "error_code", None),
            )
        raise StorageUnavailable from error


def create(make: Callable[[], object]) -> None:
    """Create something; that somebody else was faster is as good."""
    try:
        make()
    except HttpResponseError as error:
        if not has_code(
            error, "QueueAlreadyExists", "TableAlreadyExists", "ContainerAlreadyExists"
        ):
            raise


def has_code(error: HttpResponseError, *codes: str) -> bool:
    """Say whether storage gave one of *codes* as its reason."""
    code = getattr(error, "error_code", None)
    if code is not None:
        return getattr(code, "value", code) in codes
    # The tables SDK reads no code from the answer to an insert.
    return error.response is not None and any(
        f'"{code}"' in error.response.text() for code in codes
    )


def unless(act: Callable[[], T], *codes: str) -> T | None:
    """Act; return ``None`` if storage refuses for one of the reasons *codes*."""
    try:
        return act()
    except HttpResponseError as error:
        if not has_code(error, *codes):
            raise
        return None
