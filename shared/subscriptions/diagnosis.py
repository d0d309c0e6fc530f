"""Says why an endpoint has not consented, and what to do: the one place for every surface."""

from __future__ import annotations

import re
from enum import StrEnum
from http import HTTPStatus
from typing import NamedTuple
from urllib.parse import urlsplit

from shared.http import Failure, NotAnswered
from shared.subscriptions.subscription import WEBHOOK_ORIGIN, DeliverySchema, EventSubscription

PENDING = "pushgridValidation"  # a property of ours: why the endpoint has not consented
ALLOWED_ORIGIN = "WebHook-Allowed-Origin"
_PAGE = "https://aka.ms/esvalidation"
_LISTEN = "Behind 'pushgrid listen --forward-to URL' it needs no answer of its own."
_RETURN_CODE = (
    f'It has to answer 200 with {{"validationResponse": "<data.validationCode>"}} ({_PAGE}). '
    f"{_LISTEN}"
)
_ALLOW_ORIGIN = (
    f"It has to answer OPTIONS with {ALLOWED_ORIGIN}: {WEBHOOK_ORIGIN} ({_PAGE}cloudevent). "
    f"{_LISTEN}"
)
_ALLOW_ADDRESS = (
    "The app's settings PUSHGRID_ALLOWED_NETWORKS and PUSHGRID_ALLOW_HTTP allow addresses that are "
    "not public and endpoints without TLS. No setting allows the platform's own addresses, such as "
    "169.254.0.0/16 and 168.63.129.16."
)
_IN_LOG = "The app's log has the details (handshake.failed)."
_ENTRA_LOG = "The app's log has the answer of Entra ID."
_ASK_AGAIN = (
    "'pushgrid subscription update {subscription} --topic {topic} --endpoint URL' asks it again"
)
_OPEN_LINK = (
    f"{_ASK_AGAIN}. Or open, within ten minutes, the validation link in the request that the "
    "endpoint received; Pushgrid does not keep it."
)
_LINK_IS_OVER = (
    f"Its validation link is over: create the event subscription anew with --replace, or "
    f"{_ASK_AGAIN}."
)

_FORMER = "Until it consents, the former endpoint gets the events."


class Reason(StrEnum):
    """Why an endpoint has not consented; the values of `AWAITED` are stored."""

    NOT_KNOWN = "notKnown"  # stored by a version that kept no reason, or by a later one
    # It answered 200.
    NO_CODE = "noCode"
    COMPRESSED = "compressed"
    TOO_LARGE = "tooLarge"
    IN_ARRAY = "inArray"
    BARE = "bare"
    OTHER_MEMBER = "otherMember"
    NO_ORIGIN = "noOrigin"
    CORS = "cors"
    # It refused, or was not reached; nothing is stored.
    OTHER_CODE = "otherCode"
    OTHER_ORIGIN = "otherOrigin"
    STATUS = "status"
    UNREACHED = "unreached"


# After these the consent can still come through the validation link.
AWAITED = frozenset(
    {
        Reason.NO_CODE,
        Reason.COMPRESSED,
        Reason.TOO_LARGE,
        Reason.IN_ARRAY,
        Reason.BARE,
        Reason.OTHER_MEMBER,
        Reason.NO_ORIGIN,
        Reason.CORS,
    }
)


class Diagnosis(NamedTuple):
    """Why an endpoint has not consented, and what to do: sentences without its own words."""

    reason: Reason
    why: str
    remedy: str

    @property
    def document(self) -> dict[str, str]:
        """Its JSON members: ``{"reason": "noCode", "why": …, "remedy": …}``."""
        return {name: str(value) for name, value in self._asdict().items()}


_ANSWERED = "The endpoint answered 200"
_NO_ORIGIN = f"without the header {ALLOWED_ORIGIN}."
_SENTENCES = {
    Reason.NOT_KNOWN: ("The endpoint has not completed the validation handshake.", _RETURN_CODE),
    Reason.NO_CODE: (f"{_ANSWERED} without the validation code.", _RETURN_CODE),
    Reason.COMPRESSED: (
        f"{_ANSWERED} with a compressed body (Content-Encoding), which is not read.",
        f"Answer the handshake without compression. {_RETURN_CODE}",
    ),
    Reason.TOO_LARGE: (f"{_ANSWERED} with 64 KiB or more, and no code was read.", _RETURN_CODE),
    Reason.IN_ARRAY: (
        f"{_ANSWERED} with the validation code in an array, not in an object.",
        _RETURN_CODE,
    ),
    Reason.BARE: (
        f"{_ANSWERED} with the validation code as bare text, not in a JSON object.",
        _RETURN_CODE,
    ),
    Reason.OTHER_MEMBER: (
        f"{_ANSWERED} with the validation code, but not as the member validationResponse.",
        _RETURN_CODE,
    ),
    Reason.NO_ORIGIN: (f"The endpoint answered OPTIONS {_NO_ORIGIN}", _ALLOW_ORIGIN),
    Reason.CORS: (
        f"The endpoint's CORS handling answered OPTIONS, {_NO_ORIGIN}",
        f"Let OPTIONS with WebHook-Request-Origin reach the endpoint. {_ALLOW_ORIGIN}",
    ),
    Reason.OTHER_CODE: (
        "The endpoint returned a validationResponse that is not the validationCode.",
        _RETURN_CODE,
    ),
    Reason.OTHER_ORIGIN: (
        f"The answer's {ALLOWED_ORIGIN} is neither {WEBHOOK_ORIGIN} nor *.",
        _ALLOW_ORIGIN,
    ),
}
_IS_IT_RUNNING = "Is the endpoint running? 'pushgrid listen' runs one that answers."
# Where a Functions host passes requests to an extension's triggers.
_OF_EXTENSION = re.compile(r"/runtime/webhooks/(\w+)/?", re.IGNORECASE)
# Source: observed of the Functions host 4.1037 with the Event Grid extension 3.3.0.
_OF_FUNCTION: dict[int, str] = {
    HTTPStatus.UNAUTHORIZED: "The function app got no key, or a wrong one. End the URL with "
    "&code=KEY: the app's system key {extension}_extension.",
    HTTPStatus.FORBIDDEN: "The function app got a key of another kind, or is stopped. End the URL "
    "with &code=KEY: the app's system key {extension}_extension.",
    HTTPStatus.NOT_FOUND: "The function app has no function of the name in functionName, in which "
    "case counts, or it is disabled. An app that is still starting answers so, too.",
}
_CHECK_HOST = "Check the host's name in the URL."
_OF_FAILURE = {
    Failure.TIMED_OUT: _IS_IT_RUNNING,
    Failure.RESOLUTION: _CHECK_HOST,
    Failure.SOCKET: _IS_IT_RUNNING,
    Failure.NOT_ALLOWED: _ALLOW_ADDRESS,
    Failure.UNAUTHORIZED: _ENTRA_LOG,
    Failure.NO_AUTHORITY: _ENTRA_LOG,
}


def diagnosis(reason: Reason) -> Diagnosis:
    """Return the diagnosis of a *reason* that says all by itself: not of a status or failure."""
    return Diagnosis(reason, *_SENTENCES[reason])


def of_status(method: str, url: str, status: int, name: str) -> Diagnosis:
    """Return the diagnosis of another status, by its *name* in Event Grid's messages."""
    remedy = _ALLOW_ORIGIN if method == "OPTIONS" else _RETURN_CODE
    why = _request_failed(method, name)
    return Diagnosis(Reason.STATUS, why, of_function(url, status) or remedy)


def of_function(url: str, status: int | None) -> str | None:
    """Return what a *status* means at the trigger of a function; ``None``: it is no such URL."""
    found, means = _OF_EXTENSION.fullmatch(urlsplit(url).path), _OF_FUNCTION.get(status or 0)
    return means.format(extension=found[1].lower()) if found and means else None


def of_failure(method: str, failed: NotAnswered) -> Diagnosis:
    """Return the diagnosis of an endpoint that gave no answer, or only the beginning of one."""
    why = _request_failed(method, f"Unknown ({failed.failure})")
    remedy = _IN_LOG if failed.status else _OF_FAILURE.get(failed.failure, _IN_LOG)
    return Diagnosis(Reason.UNREACHED, why, remedy)


def while_awaited(
    stored_reason: object,
    subscription: EventSubscription,
    *,
    is_over: bool = False,
    has_former: bool = False,
) -> Diagnosis:
    """
    Return the diagnosis of a *subscription* whose consent is awaited.

    *stored_reason* is what its document holds: ``None`` if an earlier version wrote it. *is_over*:
    its link has ended. *has_former*: the version before is in force until then.
    """
    awaited = stored_reason in AWAITED
    found = diagnosis(Reason(str(stored_reason)) if awaited else Reason.NOT_KNOWN)
    if not awaited and subscription.delivery_schema is DeliverySchema.CLOUD_EVENTS:
        found = found._replace(remedy=_ALLOW_ORIGIN)
    next_step = (_LINK_IS_OVER if is_over else _OPEN_LINK).format(
        subscription=subscription.name, topic=subscription.addressed_topic
    )
    why = f"{found.why} {_FORMER}" if has_former else found.why
    return found._replace(why=why, remedy=f"{found.remedy} {next_step}")


def _request_failed(method: str, name: str) -> str:
    return f"Http {method} request failed with response code {name}."
