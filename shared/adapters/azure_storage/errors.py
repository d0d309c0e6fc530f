"""Translates the errors of the storage SDKs: nothing above the adapters sees them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from http import HTTPStatus
from typing import TypeVar

from azure.core.exceptions import AzureError, HttpResponseError

from shared import telemetry
from shared.errors import StorageUnavailable, StorageUnreachable, Unstorable

T = TypeVar("T")


@contextlib.contextmanager
def storage_errors(*, quiet: bool = False) -> Iterator[None]:
    """
    Raise ``StorageUnavailable`` for any error of the SDK that was not handled.

    It is ``Unstorable`` if what was sent is too large, and ``StorageUnreachable`` if there was no
    answer.

    *quiet*: the caller logs it.
    """
    try:
        yield
    except AzureError as error:
        # Not the error's text: it may hold a URL with its signature.
        status = getattr(error, "status_code", None)
        if not quiet:
            telemetry.error(
                "storage.failed",
                error=type(error).__name__,
                status=status,
                code=getattr(error, "error_code", None),
            )
        if status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
            raise Unstorable from error
        raise (StorageUnavailable if status else StorageUnreachable) from error


def create_if_missing(act: Callable[[], T], create: Callable[[], object], code: str) -> T:
    """Act; if storage refuses with *code*, create what is missing and act again."""
    try:
        return act()
    except HttpResponseError as error:
        if not has_code(error, code):
            raise
    none_if_code(create, "QueueAlreadyExists", "TableAlreadyExists", "ContainerAlreadyExists")
    return act()


def has_code(error: HttpResponseError, *codes: str) -> bool:
    """Tell whether storage gave one of *codes* as its reason."""
    code = getattr(error, "error_code", None)
    if code is not None:
        return getattr(code, "value", code) in codes
    # The tables SDK reads no code from the answer to an insert.
    return error.response is not None and any(
        f'"{code}"' in error.response.text() for code in codes
    )


def none_if_code(act: Callable[[], T], *codes: str) -> T | None:
    """Act; return ``None`` if storage refuses with one of *codes*."""
    try:
        return act()
    except HttpResponseError as error:
        if not has_code(error, *codes):
            raise
        return None
