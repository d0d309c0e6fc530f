"""Answers which dead letters a subscription has: its blobs, and the records in one of them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

from shared.arm.arm_json import answer
from shared.arm.subscription_codec import to_subscription_in_force
from shared.clock import timestamp
from shared.deadletter.batching import dead_letter_folder
from shared.deadletter.reader import UnreadableBlob
from shared.engine.manage.attempts_api import stored_subscription
from shared.engine.manage.call import Call, ManagePorts
from shared.engine.manage.page import next_link, read_time, read_top
from shared.engine.manage.subscriptions import Subscriptions
from shared.engine.operations.dead_letter_blobs import (
    MAX_PAGE_RECORDS,
    BlobFilter,
    DeadLetterBlobs,
    blob_document,
    record_document,
)
from shared.engine.ports import StoredBlob
from shared.errors import InvalidDocument, NotFound
from shared.http import HttpAnswer

_TOKEN = re.compile(r"(?P<at>[-:.0-9T]{19,32}Z) (?P<path>.+)")
_NUMBER = re.compile(r"[0-9]{1,6}")

_Handler = Callable[[ManagePorts, Call], HttpAnswer]


def dead_letter_blobs_of(form: Subscriptions) -> _Handler:
    """Return the handler that lists blobs, for event subscriptions in one form."""

    def answer_blobs(ports: ManagePorts, call: Call) -> HttpAnswer:
        """Answer a page of blobs, newest first; with ``nextLink`` while there may be more."""
        query = call.query
        wanted = BlobFilter(
            since=read_time(call, "since"),
            until=read_time(call, "until"),
            prefix=query.get("prefix", ""),
            reason=query.get("reason"),
        )
        top = read_top(call)
        blobs = _blobs(ports, form, call)
        wanted = replace(wanted, after=_after(query.get("$skiptoken"), blobs))
        page = blobs.page(wanted, top)
        last = page.last and f"{timestamp(page.last.written_at)} {page.last.path}"
        found = {
            "container": blobs.destination.container,
            "account": blobs.destination.account or ports.deployment.account,
            "value": [blob_document(each, with_event=not call.is_reader) for each in page.blobs],
            "nextLink": next_link(call, last) if last else None,
        }
        return answer(200, found)

    return answer_blobs


def dead_letter_records_of(form: Subscriptions) -> _Handler:
    """Return the handler that shows a blob, for event subscriptions in one form."""

    def answer_records(ports: ManagePorts, call: Call) -> HttpAnswer:
        """Answer a page of the dead letters in the blob that the query names."""
        path, first = call.query.get("blob", ""), call.query.get("$skiptoken", "0")
        if not _NUMBER.fullmatch(first):
            raise _wrong_token()
        top = read_top(call, MAX_PAGE_RECORDS, str(MAX_PAGE_RECORDS))
        try:
            page = _blobs(ports, form, call).records(path, int(first), top)
        except UnreadableBlob as error:
            raise InvalidDocument(f"The blob '{path}' can't be read. {error}") from None
        found = {
            "blob": path,
            "value": [record_document(each) for each in page.records],
            "nextLink": next_link(call, str(page.following)) if page.following else None,
        }
        return answer(200, found)

    return answer_records


def _blobs(ports: ManagePorts, form: Subscriptions, call: Call) -> DeadLetterBlobs:
    """
    Return the blobs of the subscription that the path of *call* names.

    Raises:
        NotFound: it does not exist, or has no dead-letter destination.
    """
    subscription = to_subscription_in_force(stored_subscription(ports, form, call))
    if subscription.dead_letter is None:
        raise NotFound(
            f"The event subscription '{subscription.name}' has no dead-letter destination."
        )
    return DeadLetterBlobs(
        reader=ports.dead_letters,
        destination=subscription.dead_letter,
        folder=dead_letter_folder(subscription.topic, subscription.name),
    )


def _after(token: str | None, blobs: DeadLetterBlobs) -> StoredBlob | None:
    """
    Return the last blob of the page before.

    Raises:
        InvalidDocument: the token is not one of this subscription.
    """
    if token is None:
        return None
    found = _TOKEN.fullmatch(token)
    try:
        at = datetime.fromisoformat(found["at"]).astimezone(UTC) if found else None
    except (ValueError, OverflowError):
        at = None
    if not found or not at or not blobs.has_path(found["path"]):
        raise _wrong_token()
    return StoredBlob(found["path"], at, 0)


def _wrong_token() -> InvalidDocument:
    return InvalidDocument("$skipToken is not one of a nextLink.", target="$skipToken")
