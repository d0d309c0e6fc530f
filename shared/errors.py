"""Defines the errors that Pushgrid raises, with HTTP status and error code."""

from __future__ import annotations

from dataclasses import dataclass
from errno import EMFILE, ENFILE, ENOBUFS, ENOMEM
from typing import ClassVar


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault of a document."""

    code: str  # for programs
    message: str  # for people
    target: str | None = None  # the member at fault


class AppError(Exception):
    """
    The request can't be served.

    *status* is the HTTP status, *code* the value of ``error.code``. *faults* has at least one
    fault. *detail_code* is the code of a single fault if it differs from *code*; the argument
    overrides that of the class. *target* is the target of a single fault. Clients read
    *default_message* where an error is raised without a message.
    """

    default_message: ClassVar[str] = "The request can't be served."
    status: ClassVar[int] = 500
    code: ClassVar[str] = "InternalServerError"
    detail_code: ClassVar[str] = ""

    def __init__(
        self,
        message: str | None = None,
        *,
        detail_code: str | None = None,
        target: str | None = None,
        faults: tuple[Fault, ...] = (),
    ) -> None:
        self.message = message or self.default_message
        code = detail_code or self.detail_code or self.code
        self.faults = faults or (Fault(code=code, message=self.message, target=target),)
        super().__init__(self.message)


class InvalidEvents(AppError):
    """The events don't conform to the topic's input schema."""

    status = 400
    code = "BadRequest"
    detail_code = "InputJsonInvalid"


class InvalidSignature(AppError):
    """The access signature can't be read."""

    status = 400
    code = "BadRequest"
    detail_code = "InvalidSas"


class InvalidDocument(AppError):
    """The document of the resource is not valid."""

    status = 400
    code = "InvalidRequest"


class Unauthenticated(AppError):
    """
    The request is not authenticated.

    *challenge* is the header ``WWW-Authenticate``.
    """

    status = 401
    code = "Unauthorized"
    challenge: str = "Bearer"


class Forbidden(AppError):
    """The caller or its address is not permitted to do this."""

    status = 403
    code = "Forbidden"


class NotFound(AppError):
    """There is no such resource."""

    status = 404
    code = "NotFound"
    detail_code = "ResourceNotFound"


class WrongPath(NotFound):
    """No events are published at this path; the message says where they are."""


class MethodNotAllowed(AppError):
    """The path does not serve the HTTP method."""

    default_message = "The requested resource does not support this HTTP method."
    status = 405
    code = "MethodNotAllowed"


class Conflict(AppError):
    """Another request has changed the resource, or its name is taken."""

    default_message = "The resource was changed by another request, or its name is taken."
    status = 409
    code = "Conflict"


class TooLarge(AppError):
    """The body of the request is too large."""

    status = 413
    code = "RequestEntityTooLarge"
    detail_code = "PayloadTooLarge"


class UnsupportedMediaType(AppError):
    """The Content-Type header is either missing or it doesn't have a valid value."""

    status = 415
    code = "UnsupportedMediaType"
    detail_code = "InvalidContentType"


class TooManyRequests(AppError):
    """The caller has to wait before it asks again."""

    status = 429
    code = "TooManyRequests"


class HandshakeFailed(AppError):
    """The endpoint did not complete the validation handshake."""

    status = 400
    code = "Url validation"


class StorageUnavailable(AppError):
    """Storage did not answer, or refused; a write may or may not have been stored."""

    default_message = (
        "Storage is unavailable; the request may not have been stored. It is safe to retry."
    )
    status = 503
    code = "ServiceUnavailable"


class Unstorable(StorageUnavailable):
    """Storage refuses what is to be stored, for its size: it is no outage."""


class UnreadableDocument(StorageUnavailable):
    """A stored document has another form than this version of the app can read."""

    default_message = (
        "The resource can't be read: its stored document is damaged, or another version's. PUT "
        "replaces it, and DELETE deletes it."
    )


class StorageUnreachable(StorageUnavailable):
    """Storage gave no answer at all."""


class SigningKeysUnavailable(AppError):
    """The signing keys of an issuer are not known, and could not be fetched."""

    default_message = "The signing keys of access tokens can't be fetched now. Retry the request."
    status = 503
    code = "ServiceUnavailable"


class MalformedMessage(AppError):
    """A queue message of ours can't be read."""


class InvalidSettings(AppError):
    """The app's settings are incomplete or wrong."""

    # For the operator only: the message quotes values, which may be misplaced secrets.
    status = 503
    code = "ServiceUnavailable"
    ends_host: ClassVar[bool] = True  # a local host stops here: devhost/README.md


class FirstFault:
    """
    Lets the steps of a loop go on when one fails, each in a ``with``; the first fault is raised
    when all are done.
    """

    def __init__(self) -> None:
        self.fault: Exception | None = None

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, fault: BaseException | None, trace: object) -> bool:
        if not isinstance(fault, Exception):
            return False
        self.fault = self.fault or fault
        return True

    def raise_it(self) -> None:
        """Raise the first fault, if there was one."""
        if self.fault:
            raise self.fault


def is_shortage(error: BaseException) -> bool:
    """Tell whether this process lacked descriptors, memory or a thread: *error* or its cause."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, MemoryError) or _NO_THREAD in str(cause):
            return True
        if isinstance(cause, OSError) and cause.errno in _SHORTAGES:
            return True
        cause = cause.__cause__ or cause.__context__
    return False


def is_transient(error: BaseException) -> bool:
    """
    Tell whether a later try of the same can succeed: storage or this process was at fault.

    What is too large for storage stays so.
    """
    if isinstance(error, Unstorable):
        return False
    return isinstance(error, (StorageUnavailable, OSError)) or is_shortage(error)


_SHORTAGES = {EMFILE, ENFILE, ENOBUFS, ENOMEM}
_NO_THREAD = "can't start new thread"

# Errors that reading a document stored by another version of the app can raise.
UNREADABLE = (AppError, ValueError, LookupError, TypeError, AttributeError, OverflowError)
