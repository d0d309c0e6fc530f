"""Puts messages; what is due now is in this process's hand when it is stored."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta

from shared.adapters.sql.database import Database, Write, WriteOptions, WriteTransaction, ignore
from shared.adapters.sql.leases import SqlLeases
from shared.adapters.sql.messages import (
    NewMessage,
    NewMessages,
    delete,
    insert,
    key_of,
    next_receipt,
    receipt_for,
    replace,
)
from shared.engine.ports import PutResult, Queue, Receipt
from shared.engine.ports.leases import HasShare
from shared.errors import StorageUnavailable, Unstorable
from shared.subscriptions.subscription import SubscriptionKey
from shared.tasks import loop_time

_NO_WAIT = timedelta()
_REPEATED_FOR = 10.0  # seconds, until it is known what is stored; each try is repeated itself
_PAUSE = 0.2


class SqlSender:
    """Sender."""

    def __init__(self, database: Database, new: NewMessages, leases: SqlLeases) -> None:
        self._database = database
        self._new = new
        self._leases = leases
        self.has_share: HasShare = lambda _: True

    async def put(self, queue: Queue, text: str, visible_in: timedelta = timedelta()) -> Receipt:
        (result,) = await self.put_all(queue, [text], visible_in)
        if isinstance(result, StorageUnavailable):
            raise result
        return result

    async def put_all(
        self, queue: Queue, texts: Sequence[str], visible_in: timedelta = timedelta()
    ) -> Sequence[PutResult]:
        messages: list[NewMessage | Unstorable] = []
        for text in texts:
            try:
                messages.append(self._new.make(text, visible_in))
            except Unstorable as error:
                messages.append(error)
        legal = [each for each in messages if isinstance(each, NewMessage)]
        faults: Mapping[int, StorageUnavailable] = {}
        run = 0
        if legal:
            try:
                faults, run = await self._store(queue, legal, is_due=visible_in <= _NO_WAIT)
            except StorageUnavailable as error:
                faults = {each.number: error for each in legal}
        return [
            each
            if isinstance(each, Unstorable)
            else faults.get(each.number) or receipt_for(each.number, 0, run)
            for each in messages
        ]

    async def _store(
        self, queue: Queue, messages: Sequence[NewMessage], *, is_due: bool
    ) -> tuple[Mapping[int, StorageUnavailable], int]:
        """Store messages in one transaction; return the faults of what is refused, and the run."""
        ours: list[NewMessage] = []
        others: list[NewMessage] = []
        for each in messages:
            (ours if self._is_ours(each) else others).append(each)
        room = self._leases.reserve(queue, len(ours)) if is_due else 0
        born = ours[:room]
        waiting = [self._leases.for_others(queue, each) for each in (*ours[room:], *others)]
        messages = [*born, *waiting]

        def write(writing: WriteTransaction) -> tuple[Mapping[int, StorageUnavailable], int]:
            faults, run = {}, self._database.run
            for place, each in enumerate(messages):
                try:
                    insert(writing, queue, each, run if place < room else 0)
                except StorageUnavailable as fault:
                    faults[each.number] = fault
            return faults, run

        def then(result: tuple[Mapping[int, StorageUnavailable], int] | None) -> None:
            if result is None:  # They may be stored.
                self._leases.may_be_stored(queue, messages, room)
                return
            faults, run = result
            taken, left = (
                [each for each in some if each.number not in faults] for some in (born, waiting)
            )
            self._leases.stored(queue, taken, left, room, run)

        options = WriteOptions(
            grows=queue is Queue.DELIVERIES,
            births=[each.number for each in messages] if room == len(messages) else (),
            claims=[each.number for each in messages[:room]],
        )
        return await self._database.write_on_loop(write, options, then)

    def _is_ours(self, message: NewMessage) -> bool:
        """Tell whether this process can push all that is in a message."""
        parts = message.outline.parts
        return all(self.has_share(SubscriptionKey(*each[:2])) for each in parts)

    async def take_back(self, queue: Queue, receipt: Receipt) -> bool:
        there = "SELECT 1 FROM messages WHERE id = ?"

        def write(writing: WriteTransaction) -> bool:
            key = key_of(self._database, queue, receipt)
            return key is not None and delete(writing, key)

        return await self._known(
            write, is_stored=lambda writing: not writing.rows(there, int(receipt.message_id))
        )

    async def replace(
        self, queue: Queue, receipt: Receipt, text: str, visible_in: timedelta
    ) -> Receipt | None:
        message = self._leases.for_others(queue, self._new.make(text, visible_in))
        there = "SELECT 1 FROM messages WHERE id = ? AND receipt = ?"

        def write(writing: WriteTransaction) -> bool:
            key = key_of(self._database, queue, receipt)
            return key is not None and replace(writing, key, message)

        def is_stored(writing: WriteTransaction) -> bool:
            version, _ = next_receipt(receipt).version.split(".")
            return bool(writing.rows(there, int(receipt.message_id), int(version)))

        def then(is_replaced: bool | None) -> None:  # noqa: FBT001
            # After a failure it may be.
            self._leases.stored(queue, [], [] if is_replaced is False else [message])

        is_replaced = await self._known(write, is_stored=is_stored, then=then)
        return next_receipt(receipt) if is_replaced else None

    async def _known(
        self,
        write: Write[bool],
        *,
        is_stored: Write[bool],
        then: Callable[[bool | None], object] = ignore,
    ) -> bool:
        """
        Return what *write* tells; after a commit of unknown outcome, whether it *is_stored*.

        Else what was taken back would count as what comes again, and would never end.

        Raises:
            StorageUnavailable: that is still unknown.
        """
        give_up_at, is_done = loop_time() + _REPEATED_FOR, False

        def repeated(writing: WriteTransaction) -> bool:
            nonlocal is_done
            is_done = (is_done and is_stored(writing)) or write(writing)
            return is_done

        while True:
            try:
                return await self._database.write_on_loop(repeated, then=then)
            except StorageUnavailable:
                if loop_time() >= give_up_at:
                    raise
            await asyncio.sleep(_PAUSE)
