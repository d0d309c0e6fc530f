"""Judges a server by what its transactions have stored."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

from pushgrid.testing.memory import START
from shared.adapters.sql.database import moment, text_of_plain
from shared.adapters.sql.suspects import DEATHS
from shared.delivery.policy import EndReason, EndState
from shared.engine.ports import Queue, Receipt, Received, Table
from shared.engine.ports.settling import Ended
from shared.errors import StorageUnavailable
from shared.subscriptions.subscription import DeadLetterDestination
from shared.telemetry import LogLine
from tests.simulation.kernel import Process
from tests.simulation.ledger import Ledger, Push
from tests.simulation.plan import OTHER_ACCOUNT
from tests.simulation.rows import Change

Key = tuple[str, int, str]  # of an entry
TOLD = "is told to end"
_ENDS_UNFINISHED = {  # what an end may fail with
    each.__name__
    for each in (TimeoutError, StorageUnavailable, *StorageUnavailable.__subclasses__())
}


class ServedLedger(Ledger):
    """Judges by what was committed, row by row."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._lines: dict[str, Sequence[str]] = {}
        self.stored: Any = SimpleNamespace(payloads=SimpleNamespace(blobs=self._lines))
        # Pushes that are not settled, of each process.
        self._under_way: defaultdict[Process, Counter[Key]] = defaultdict(Counter)
        self._drops: dict[Key, list[int]] = {}  # told, stored
        self._named = Counter[str]()  # payloads, by the messages that are stored
        self._ends = 0  # of processes
        self._deadly = set[int]()  # messages that so many have ended with that none may run

    def began(self, process: Process, skew: float, is_trusted: Callable[[], bool]) -> None:
        super().began(process, skew, is_trusted)
        self._told.add(process)

    def hear(self, process: str, line: LogLine) -> None:
        """Tell a line of the app's log with the story; find what fails at an end."""
        if line.event == "server.unfinished":
            why = str(line.fields["detail"])
            if why.partition(":")[0] not in _ENDS_UNFINISHED:
                self.find("unheard", f"{process}: {why}")
        if self.story is not None:
            self.story.append((self._kernel.now, f"{process} logs {line.json}", frozenset()))

    def died(self, process: Process) -> None:
        """Enter that what is under way may be repeated: it was not settled."""
        self._ends += 1
        self._repeated(process, sorted(self._under_way[process]), "its process ends")

    def may_lack_ends(self, name: str) -> bool:
        """Tell whether a subscription's dead letters, in another account, may not be counted."""
        places = (p for p, folder in self._blobs_of if folder.rpartition("/")[2].lower() == name)
        return self._ends > 0 and any(each.startswith(f"{OTHER_ACCOUNT}/") for each in places)

    def committed(self, process: Process, changes: Sequence[Change]) -> None:
        """Enter what a transaction has stored."""
        judges = {
            "documents": self._document,
            "messages": self._message,
            "message_payloads": self._names,
            "payloads": self._payload,
            "blobs": self._blob,
            "attempts": self._attempt,
        }
        for each in changes:
            if judge := judges.get(each.table):
                judge(process, each)

    def _document(self, process: Process, change: Change) -> None:
        kind, topic, name = change.key
        self.note(f"{process.name} {'stores' if change.new else 'deletes'} {kind} {topic} {name}")
        document = json.loads(change.new[3]) if change.new else None
        self._documented(Table(kind), topic, name, document)

    def _message(self, process: Process, change: Change) -> None:
        old, new = change.old, change.new
        if new is None:
            assert old
            self._holders.pop(str(old[0]), None)
            self._deadly.discard(old[0])
            self.note(f"{process.name} deletes {old[0]}")
            return
        number, queue, due, _, run, receipt, receives, deaths, *_, body = new
        text, name = body.decode(), process.name
        if self._ends >= deaths >= DEATHS:
            self._deadly.add(number)
        if old is None:
            hidden = moment(due) - START - timedelta(seconds=self._kernel.now)
            self.note(f"{name} stores {number} in {hidden}{', in hand' if run else ''}")
            self._put(process, Queue(queue), text)
            return
        told = f"{name} changes {number} on {queue}: run {old[4]} → {run}, deaths {deaths}"
        parts = self._parts(text)
        self.note(told, [n for _, numbers in parts for n in numbers])
        if body != old[10]:
            self._judge_parts(number, text)
        if old[4] and not run:
            self._given_back(process, text)
        elif run == 0 and receives > old[6]:
            found = Received(text=text, receipt=Receipt(str(number), str(receipt)), count=receives)
            self._received(process, Queue(queue), [found])

    def _judge_parts(self, number: int, text: str) -> None:
        """Judge whether a message that is rewritten has nothing twice."""
        for part, numbers in self._parts(text):
            ids = [(each.origin.publish_id, each.position) for each in part.deliveries]
            if len({*ids}) < len(ids):
                self.find("repeated", f"message {number} has one of {numbers} twice")

    def _given_back(self, process: Process, text: str) -> None:
        pushed = [each for each in self._keys_of(text) if self._under_way[process][each]]
        if pushed and self._faults.get(process, -1e9) < self._kernel.now - 300:
            self.find("comes again", f"{pushed} without a fault")
        self._repeated(process, pushed, "its message is given back")

    def _keys_of(self, text: str) -> Sequence[Key]:
        return [
            (part.subscription.lower(), number, self._job_of(each))
            for part, numbers in self._parts(text)
            for number, each in zip(numbers, part.deliveries, strict=True)
        ]

    def _names(self, _: Process, change: Change) -> None:
        """Enter that a message names a payload, or does not any more."""
        _, name = change.key
        self._named[name] += (change.new is not None) - (change.old is not None)

    def _payload(self, process: Process, change: Change) -> None:
        if change.old is None and change.new:
            name, expires, body = change.new
            self._lines[name] = body.decode().split("\n")
            self._judge_payload(process, moment(expires))
        elif change.old and change.new is None:
            name, expires, _ = change.old
            self._judge_retention("payloads", moment(expires))
            if self._named[name]:
                self.find("deleted early", f"payload {name}, which a message names")

    def _blob(self, __: Process, change: Change) -> None:
        if change.new and not change.old:
            container, path, *_, body = change.new
            if container != "poison":
                self._buried(DeadLetterDestination(container=container), path, body)
            elif not self._deadly:
                self.find("poison", path)

    def _attempt(self, process: Process, change: Change) -> None:
        if change.new is None:
            self._judge_retention("attempts", moment(change.key[2]).date() + timedelta(days=1))
            return
        _, name, _, _, _, _, event, _, job, record, _ = change.new
        if event is None:
            return
        key = text_of_plain(name), int(text_of_plain(event)[1:]), text_of_plain(job or "")
        known = json.loads(record)
        if known.get("outcome") and self._under_way[process][key]:
            self._under_way[process][key] -= 1
        self.note(f"{process.name} has settled {key}: {known.get('state')}", [key[1]])
        if known.get("state") == EndState.DROPPED:
            self._dropped(key, EndReason(known["reason"]), process, is_stored=True)

    # ── What differs ──

    def ended(self, process: str, end: Ended) -> None:
        name, number = end.key.subscription.lower(), self._number_of(end.delivery)
        if end.state is not EndState.DROPPED:
            super().ended(process, end)
            entry = self._entry(name, number, self._job_of(end.delivery))
            if end.reason is EndReason.POISON and self._deadly and not entry.ends:
                self._end(entry, "recorded")
            return
        self.note(f"{process} tells the end of {name} {number}: {end.reason}", [number])
        if end.reason is EndReason.PAYLOAD_MISSING:
            self.find("payload missing", f"an event of {name}")
            return
        key = name, number, self._job_of(end.delivery)
        self._dropped(key, end.reason, self._processes[process], is_stored=False)

    def _dropped(self, key: Key, reason: EndReason, by: Process, *, is_stored: bool) -> None:
        """Enter a drop that the app tells, or that was stored, whichever comes first."""
        drops = self._drops.setdefault(key, [0, 0])
        before = max(drops)
        drops[is_stored] += 1
        if max(drops) > before:
            entry = self._entry(*key)
            self._judge_end(entry, reason, by, is_drop=True)
            self._end(entry, f"dropped: {reason}")

    def _judge_push(self, push: Push, number: int) -> None:
        entry = self._of_push(push, number)
        super()._judge_push(push, number)
        self._under_way[push.process][entry.subscription, number, entry.job] += 1

    def _read_at(self, _: Process, __: str) -> float | None:
        """Return when the terms of an end count: in the transaction that stores it."""
        return self._kernel.now

    def _repeated(self, process: Process, keys: Sequence[Key], why: str) -> None:
        for key in keys:
            if count := self._under_way[process].pop(key, 0):
                self.note(f"  {key} may be repeated: {why}", [key[1]])
                self._entry(*key).copies += count
