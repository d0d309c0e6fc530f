"""Answers what became of a subscription's events: attempts, ends, dead letters, and what holds."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from shared.arm.arm_json import answer
from shared.arm.subscription_codec import to_subscription_in_force
from shared.clock import timestamp
from shared.deadletter.paths import dead_letter_folder
from shared.deadletter.reader import UnreadableBlob
from shared.delivery.attempt_record import KEPT_FOR
from shared.engine.caching.health_table import TableHealth
from shared.engine.manage.call import Call, names_of, next_link, read_time, read_top
from shared.engine.manage.subscriptions import Subscriptions
from shared.engine.operations import event_timeline, subscription_state
from shared.engine.operations.dead_letter_blobs import (
    MAX_PAGE_RECORDS,
    BlobFilter,
    DeadLetterBlobs,
    blob_document,
    record_document,
)
from shared.engine.ports import (
    AttemptChoice,
    AttemptReader,
    CountReader,
    DeadLetterReader,
    Document,
    StoredBlob,
    Table,
)
from shared.errors import InvalidDocument, NotFound
from shared.http import HttpAnswer
from shared.nearest import did_you_mean
from shared.subscriptions.subscription import SubscriptionKey

_MAX_TOP = 1000
_RECENT, _A_DAY = timedelta(hours=1), timedelta(days=1)
_TOKEN = re.compile(r"(?P<at>[-:.0-9T]{19,32}Z) (?P<path>.+)")
_NUMBER = re.compile(r"[0-9]{1,6}")


@dataclass(frozen=True, slots=True, kw_only=True)
class EventHistory:
    """The events of subscriptions in one form."""

    subscriptions: Subscriptions
    attempt_records: AttemptReader
    dead_letter_blobs: DeadLetterReader
    health: TableHealth
    counts: CountReader

    def attempts(self, call: Call) -> HttpAnswer:
        """Answer the latest events with attempts, oldest first, and the subscription's state."""
        now, key = self.subscriptions.clock.now(), self._key(call)
        since = read_time(call, "since") or now - KEPT_FOR
        event, top = call.query.get("event"), read_top(call, _MAX_TOP)
        days = self.attempt_records.read(*key, since, AttemptChoice(event_id=event))
        timelines = event_timeline.latest(days, top)
        stored = self._find(key) if timelines else self._stored(call)
        state = None
        if stored is not None:
            state = subscription_state.state_document(stored, self.health, self.counts, since, now)
        found = {
            **key._asdict(),
            "at": timestamp(now),
            "since": timestamp(since),
            "state": state,
            "value": [
                event_timeline.document(each, with_answers=not call.is_reader) for each in timelines
            ],
        }
        return answer(200, found)

    def failures(self, call: Call) -> HttpAnswer:
        """Answer the latest failed attempts on events of the last day, the latest first."""
        now, key = self.subscriptions.clock.now(), self._key(call)
        since = read_time(call, "since") or now - _RECENT
        days = self.attempt_records.read(*key, now - _A_DAY, AttemptChoice(since=since))
        records = (each for day in days for each in day)
        failures = event_timeline.failure_documents(
            records, read_top(call, _MAX_TOP), with_answers=not call.is_reader
        )
        return answer(200, {**key._asdict(), "at": timestamp(now), "value": failures})

    def dead_letters(self, call: Call) -> HttpAnswer:
        """Answer a page of blobs, newest first; with ``nextLink`` while there may be more."""
        query = call.query
        wanted = BlobFilter(
            since=read_time(call, "since"),
            until=read_time(call, "until"),
            prefix=query.get("prefix", ""),
            reason=query.get("reason"),
        )
        top = read_top(call)
        blobs = self._blobs(call)
        wanted = replace(wanted, after=_after(query.get("$skiptoken"), blobs))
        page = blobs.page(wanted, top)
        last = page.last and f"{timestamp(page.last.written_at)} {page.last.path}"
        found = {
            "container": blobs.destination.container,
            "account": blobs.destination.account or self.subscriptions.deployment.account,
            "value": [blob_document(each, with_event=not call.is_reader) for each in page.blobs],
            "nextLink": next_link(call, last) if last else None,
        }
        return answer(200, found)

    def dead_letter_records(self, call: Call) -> HttpAnswer:
        """Answer a page of the dead letters in the blob that the query names."""
        path, first = call.query.get("blob", ""), call.query.get("$skiptoken", "0")
        if not _NUMBER.fullmatch(first):
            raise _wrong_token()
        top = read_top(call, MAX_PAGE_RECORDS, str(MAX_PAGE_RECORDS))
        try:
            page = self._blobs(call).records(path, int(first), top)
        except UnreadableBlob as error:
            raise InvalidDocument(f"The blob '{path}' can't be read. {error}") from None
        found = {
            "blob": path,
            "value": [record_document(each) for each in page.records],
            "nextLink": next_link(call, str(page.following)) if page.following else None,
        }
        return answer(200, found)

    def _blobs(self, call: Call) -> DeadLetterBlobs:
        subscription = to_subscription_in_force(self._stored(call))
        if subscription.dead_letter is None:
            raise NotFound(
                f"The event subscription '{subscription.name}' has no dead-letter destination."
            )
        return DeadLetterBlobs(
            reader=self.dead_letter_blobs,
            destination=subscription.dead_letter,
            folder=dead_letter_folder(subscription.topic, subscription.name),
        )

    def _key(self, call: Call) -> SubscriptionKey:
        return SubscriptionKey(self.subscriptions.topics.topic_name(call), call.names["name"])

    def _find(self, key: SubscriptionKey) -> Document | None:
        found = self.subscriptions.resources.get(Table.EVENT_SUBSCRIPTIONS, *key)
        return found.document if found else None

    def _stored(self, call: Call) -> Document:
        topics, (topic, name) = self.subscriptions.topics, self._key(call)
        if topics.find(call) is None:
            known = self.subscriptions.resources.list(Table.TOPICS, topics.partition)
            near = did_you_mean(topic, names_of(known))
            raise NotFound(f"There is no topic '{topic}'{near}")
        found = self._find(SubscriptionKey(topic, name))
        if found is not None:
            return found
        known = self.subscriptions.resources.list(Table.EVENT_SUBSCRIPTIONS, topic)
        where = f"event subscription '{name}' of topic '{topic}'"
        raise NotFound(f"There is no {where}{did_you_mean(name, names_of(known))}")


def _after(token: str | None, blobs: DeadLetterBlobs) -> StoredBlob | None:
    """Return the last blob of the page before."""
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
