"""The link by which somebody consents for an endpoint that could not do so itself."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus

from shared import telemetry
from shared.clock import Clock
from shared.engine.ports import Resource, ResourceStore, Table
from shared.errors import AppError, Conflict, StorageUnavailable
from shared.http import HttpAnswer, HttpRequest
from shared.subscriptions.consent import Link, is_over, is_proof, link_of, proved
from shared.subscriptions.handshake import granted_rate

TRIES = 5  # how often somebody else may change the subscription meanwhile
_UNKNOWN = (
    "This validation link is not known. It works once, and only until the event subscription is "
    "changed or deleted. Its state shows whether its endpoint is validated."
)
_OVER = (
    "This validation link has expired: it works for ten minutes. "
    "Create or update the event subscription again to get a new one."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Validate:
    """Answers whoever opens a validation link, or calls back for an endpoint of CloudEvents."""

    resources: ResourceStore
    clock: Clock

    def run(self, request: HttpRequest) -> HttpAnswer:
        """Accept the consent that *request* brings, with the rate that it may grant; in words."""
        try:
            status, words = self._answer(request)
        except AppError as error:  # storage's, or a race lost each time: the link still works
            status, words = StorageUnavailable.status, error.message
        headers = {
            "Content-Type": "text/plain; charset=utf-8",
            "Cache-Control": "no-store",
            "Referrer-Policy": "no-referrer",
        }
        if status == StorageUnavailable.status:
            headers["Retry-After"] = "5"
        return HttpAnswer(status=status, headers=headers, body=f"{words}\n".encode())

    def _answer(self, request: HttpRequest) -> tuple[int, str]:
        link = link_of(request.params["id"])
        if link is None:
            return HTTPStatus.NOT_FOUND, _UNKNOWN
        rate = granted_rate(request.headers.get("webhook-allowed-rate"))
        for _ in range(TRIES):
            awaiting = self._awaiting(link)
            if awaiting is None:
                return HTTPStatus.NOT_FOUND, _UNKNOWN
            if is_over(awaiting.document, self.clock.now()):
                return HTTPStatus.BAD_REQUEST, _OVER
            document = proved(awaiting.document, rate)
            place = (Table.EVENT_SUBSCRIPTIONS, link.topic, link.name)
            try:
                self.resources.put(*place, document, awaiting.etag)
            except Conflict:
                continue
            telemetry.info("handshake.proved", topic=link.topic, subscription=link.name)
            return HTTPStatus.OK, (
                f"The endpoint of the event subscription {document['name']} is validated: it gets "
                "events from now on."
            )
        raise Conflict

    def _awaiting(self, link: Link) -> Resource | None:
        found = self.resources.get(Table.EVENT_SUBSCRIPTIONS, link.topic, link.name)
        return found if found and is_proof(found.document, link.secret) else None
