"""Serves validation links, by which a person or a callback consents for an endpoint."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus

from shared import telemetry
from shared.arm.consent import has_expired, matches_secret, parse_link, with_consent_granted
from shared.arm.subscription_codec import is_readable
from shared.clock import Clock
from shared.engine.manage.writing import DocumentKey, write
from shared.engine.ports import Document, Resource, ResourceStore, Table
from shared.errors import (
    AppError,
    Conflict,
    InvalidDocument,
    NotFound,
    StorageUnavailable,
    UnreadableDocument,
)
from shared.http import HttpAnswer, HttpRequest
from shared.races import Backoff
from shared.subscriptions.handshake import parse_allowed_rate

_UNKNOWN = (
    "This validation link is not known. It works once, and only until the event subscription is "
    "changed or deleted. Its state shows whether its endpoint is validated."
)
_EXPIRED = (
    "This validation link has expired: it works for ten minutes. "
    "Create or update the event subscription again to get a new one."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Validate:
    """Answers requests to validation links and CloudEvents callback URLs."""

    resources: ResourceStore
    clock: Clock
    backoff: Backoff

    def run(self, request: HttpRequest) -> HttpAnswer:
        """Record the consent of *request* and the rate it grants; answer with a sentence."""
        try:
            status, words = HTTPStatus.OK, self._consent(request)
        except Conflict:  # a race lost each time: the link still works
            status, words = HTTPStatus.SERVICE_UNAVAILABLE, StorageUnavailable().message
        except AppError as error:
            status, words = HTTPStatus(error.status), error.message
        headers = {
            "Content-Type": "text/plain; charset=utf-8",
            "Cache-Control": "no-store",
            "Referrer-Policy": "no-referrer",
        }
        if status is HTTPStatus.SERVICE_UNAVAILABLE:
            headers["Retry-After"] = "5"
        return HttpAnswer(status=status, headers=headers, body=f"{words}\n".encode())

    def _consent(self, request: HttpRequest) -> str:
        """Store the consent; a link works once, while validation is pending."""
        link = parse_link(request.params["id"])
        if link is None:
            raise NotFound(_UNKNOWN)
        rate = parse_allowed_rate(request.headers.get("webhook-allowed-rate"))

        def grant(awaiting: Resource | None) -> Document:
            if awaiting and not is_readable(awaiting.document):
                raise UnreadableDocument
            if awaiting is None or not matches_secret(awaiting.document, link.secret):
                raise NotFound(_UNKNOWN)
            if has_expired(awaiting.document, self.clock.now()):
                raise InvalidDocument(_EXPIRED)
            return with_consent_granted(awaiting.document, rate)

        key = DocumentKey(Table.EVENT_SUBSCRIPTIONS, link.topic, link.name)
        name = write(self.resources, key, grant, self.backoff).document["name"]
        telemetry.info("handshake.granted", topic=link.topic, subscription=link.name)
        return (
            f"The endpoint of the event subscription {name} is validated: it gets events from "
            "now on."
        )
