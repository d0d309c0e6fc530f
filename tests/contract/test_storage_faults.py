"""Storage that fails in each of its ways, as the adapters meet it."""

from __future__ import annotations

import gc
import json
import logging
import socket
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from time import monotonic
from typing import NamedTuple

import pytest
from azure.core.pipeline.transport import HttpTransport

from pushgrid.testing.memory import START
from shared.adapters.azure_storage import bounded_retry, day_tables, tries
from shared.adapters.azure_storage import sender as sender_module
from shared.adapters.azure_storage.attempts import WRITE_FOR, StorageAttempts
from shared.adapters.azure_storage.blobs import StorageDeadLetters, StoragePayloads
from shared.adapters.azure_storage.clients import Answered, StorageClients
from shared.adapters.azure_storage.metrics import StorageMetrics
from shared.adapters.azure_storage.queues import StorageQueues
from shared.adapters.azure_storage.tables import StorageResources
from shared.adapters.threads import SystemThreads
from shared.clock import STORAGE, ClockNote
from shared.deadletter.reader import UnreadableBlob
from shared.engine.ports import Queue, Receipt, Received, Table
from shared.errors import StorageUnavailable, StorageUnreachable
from shared.watched_clock import WatchedClock
from tests.builders import DEAD, NEVER, a_minute, a_record
from tests.contract.scripted_storage import STORED, Answer, ScriptedStorage, utc_now
from tests.senders import OnLoopSender, sender_of
from tests.serving import serving

MESSAGE = Queue.WAITING, Received(text="one", receipt=Receipt("1", "r"))
ORDERS = Table.TOPICS, "topic", "orders"


@pytest.fixture(autouse=True)
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Give the pauses between tries, which take no time."""
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(HttpTransport, "sleep", lambda _, seconds: pauses.append(seconds))
    monkeypatch.setattr(sender_module, "sleep", sleep)
    return pauses


@pytest.fixture
def storage() -> Iterator[ScriptedStorage]:
    with serving(ScriptedStorage()) as server:
        yield server


@pytest.fixture
def queues(storage: ScriptedStorage) -> StorageQueues:
    return StorageQueues(account_at(storage.server_port))


@pytest.fixture
def sender(storage: ScriptedStorage) -> Iterator[OnLoopSender]:
    with sender_of(account_at(storage.server_port)) as sender:
        yield sender


def account_at(port: int, answered: Answered = lambda _told, _seconds: None) -> StorageClients:
    services = ("Blob", "Queue", "Table")
    urls = ";".join(f"{service}Endpoint=http://127.0.0.1:{port}/acc" for service in services)
    connection = {"": f"AccountName=acc;AccountKey=a2V5;{urls}"}
    return StorageClients(connection, answered=answered)


HOUR = timedelta(hours=1)


class Work(NamedTuple):
    """A request, and how often it is tried while storage hangs: 2 where that does no harm."""

    verb: str
    tries_while_it_hangs: int
    act: Callable[[StorageClients], object]

    def __call__(self, account: StorageClients) -> None:
        self.act(account)


def put_message(account: StorageClients) -> None:
    with sender_of(account) as sender:
        sender.put(Queue.WAITING, "one")


def payloads(account: StorageClients) -> StoragePayloads:
    return StoragePayloads(account, SystemThreads())


def letters(account: StorageClients) -> StorageDeadLetters:
    return StorageDeadLetters(account)


def attempts(account: StorageClients) -> StorageAttempts:
    return StorageAttempts(account)


def counts(account: StorageClients) -> StorageMetrics:
    return StorageMetrics(account)


WORK = {
    "put message": Work("POST", 2, put_message),
    "hide message": Work("PUT", 1, lambda acc: StorageQueues(acc).hide(*MESSAGE, HOUR)),
    "delete message": Work("DELETE", 1, lambda acc: StorageQueues(acc).delete(*MESSAGE)),
    "read queue": Work("GET", 1, lambda acc: StorageQueues(acc).receive(Queue.WAITING, HOUR)),
    "read table": Work("GET", 1, lambda acc: StorageResources(acc).list(Table.TOPICS, "topic")),
    "insert row": Work("POST", 1, lambda acc: StorageResources(acc).put(*ORDERS, {}, None)),
    "replace row": Work("PUT", 1, lambda acc: StorageResources(acc).put(*ORDERS, {}, "etag")),
    "delete row": Work("DELETE", 1, lambda acc: StorageResources(acc).delete(*ORDERS)),
    "write payload": Work("PUT", 2, lambda acc: payloads(acc).write("publish-1", START, ["a"])),
    "read payload": Work("GET", 2, lambda acc: payloads(acc).read("2026020912/publish-1")),
    "delete payloads": Work("POST", 2, lambda acc: payloads(acc).delete_expired(START, NEVER)),
    "write dead letter": Work("PUT", 2, lambda acc: letters(acc).write(DEAD, "a.json", b"[]")),
    "read dead letter": Work("GET", 2, lambda acc: letters(acc).read(DEAD, "a.json", 100)),
    "find dead letter": Work("HEAD", 2, lambda acc: letters(acc).find(DEAD, "a.json")),
    "write attempt": Work("PUT", 1, lambda acc: attempts(acc).write([a_record()])),
    "write count": Work("PUT", 1, lambda acc: counts(acc).write([a_minute({})])),
}
of_every_kind = pytest.mark.parametrize("work", WORK.values(), ids=WORK)
EVERYTHING = [
    *("read queue", "read table", "write payload", "read payload"),
    *("write dead letter", "read dead letter", "write attempt"),
]


@pytest.mark.parametrize(("status", "code"), [(409, "BlobArchived"), (412, "LeaseIdMissing")])
def test_what_concerns_one_blob_is_no_outage(
    storage: ScriptedStorage, status: int, code: str
) -> None:
    storage.script = [Answer(status, code)]

    with pytest.raises(UnreadableBlob, match=code):
        WORK["read dead letter"](account_at(storage.server_port))


@pytest.mark.parametrize("work", EVERYTHING)
def test_a_repeated_request_leaves_no_connection_open(storage: ScriptedStorage, work: str) -> None:
    storage.script = [Answer(503, "ServerBusy")]
    with pytest.raises(StorageUnavailable):
        WORK[work](account_at(storage.server_port))

    with warnings.catch_warnings(record=True, action="always") as caught:
        gc.collect()
    assert [each for each in caught if each.category is ResourceWarning] == []


def test_messages_never_expire(storage: ScriptedStorage, sender: OnLoopSender) -> None:
    sender.put(Queue.WAITING, "one", visible_in=timedelta(days=9))

    (request,) = storage.requests
    assert "messagettl=-1" in request
    assert "visibilitytimeout=604800" in request


def test_the_environment_names_no_proxy(
    storage: ScriptedStorage, sender: OnLoopSender, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")

    sender.put(Queue.WAITING, "one")

    assert len(storage.requests) == 1


@pytest.mark.parametrize("fault", [Answer(500), Answer(503, "ServerBusy"), Answer(0)])
def test_a_short_fault_is_nobodys_business(
    storage: ScriptedStorage, sender: OnLoopSender, fault: Answer
) -> None:
    storage.script.insert(0, fault)

    sender.put(Queue.WAITING, "one")

    assert len(storage.requests) == 2


@pytest.mark.parametrize(
    "answer",
    [
        Answer(404, "MessageNotFound"),
        Answer(404, "QueueNotFound"),
        Answer(400, "PopReceiptMismatch"),
        Answer(409, "QueueBeingDeleted"),
    ],
    ids=lambda answer: answer.code,
)
def test_a_message_that_somebody_else_has_is_left_to_them(
    storage: ScriptedStorage, queues: StorageQueues, answer: Answer
) -> None:
    storage.script = [answer]

    queues.delete(*MESSAGE)
    queues.hide(*MESSAGE, timedelta(seconds=1))

    assert len(storage.requests) == 2


def test_a_queue_that_another_process_makes_first_is_used(
    storage: ScriptedStorage, sender: OnLoopSender
) -> None:
    storage.script = [
        Answer(404, "QueueNotFound"),
        Answer(409, "QueueAlreadyExists"),
        Answer(201, body=STORED),
    ]

    sender.put(Queue.WAITING, "one")

    assert [request.split()[0] for request in storage.requests] == ["POST", "PUT", "POST"]


@pytest.mark.parametrize("code", ["QueueAlreadyExists", "QueueBeingDeleted"])
def test_a_queue_that_can_not_be_made_now_is_left_to_the_next_look(
    storage: ScriptedStorage, queues: StorageQueues, code: str
) -> None:
    storage.script = [Answer(409, code)]

    queues.make(Queue.WAITING)

    (request,) = storage.requests
    assert request.split()[:2] == ["PUT", "/acc/waiting"]


def test_rows_of_attempts_that_take_too_long_to_write_are_given_up(
    storage: ScriptedStorage,
) -> None:
    """A stop loses what waits: rows must not grow old in memory."""
    took = 0.0

    def slow(_: object) -> Answer:
        nonlocal took
        took += WRITE_FOR.total_seconds() / 2
        return Answer(204)

    storage.choose = slow
    log = StorageAttempts(account_at(storage.server_port), lambda: took)

    with pytest.raises(StorageUnavailable, match="too long"):
        log.write([a_record(topic=f"topic-{number}") for number in range(4)])

    assert len(storage.requests) == 2


@of_every_kind
@pytest.mark.parametrize("status", [429, 503, 0], ids=["throttled", "busy", "closed"])
def test_a_request_is_tried_three_times_however_long_storage_asks_to_wait(
    storage: ScriptedStorage, slept: list[float], work: Work, status: int
) -> None:
    """Publishers waited as long as the answer to a table request said."""
    busy = Answer(status, "ServerBusy", retry_after="60")
    expired = b"<Blob><Name>2020010100/a</Name></Blob>"
    listed = b"<EnumerationResults><Blobs>%b</Blobs></EnumerationResults>" % expired
    storage.choose = lambda _: (
        Answer(200, body=listed) if "comp=list" in storage.requests[-1] else busy
    )

    with pytest.raises(StorageUnavailable):
        work(account_at(storage.server_port))

    tried = [each for each in storage.requests if "comp=list" not in each]
    assert [each.split()[0] for each in tried] == [work.verb] * tries.TRIES
    assert sum(slept) < tries.LIMIT_SECONDS / 2


@pytest.mark.parametrize("cut", [1, len(STORED), len(STORED) + 60])
def test_a_put_whose_answer_is_cut_off_is_stored(
    storage: ScriptedStorage, sender: OnLoopSender, cut: int
) -> None:
    """It failed all requests of its commit, and their publishers put it again."""
    storage.script = [Answer(201, body=STORED, cut=cut), Answer(500)]

    receipt = sender.put(Queue.WAITING, "one")

    assert len(storage.requests) == 1
    if cut > 1:  # Nobody knows how to delete it: it counts as received.
        assert sender.take_back(Queue.WAITING, receipt) is False
        assert sender.replace(Queue.WAITING, receipt, "two", timedelta()) is None
        assert len(storage.requests) == 1


def test_a_payload_whose_answer_is_cut_off_is_stored(storage: ScriptedStorage) -> None:
    storage.script = [Answer(201, cut=30), Answer(500)]

    WORK["write payload"](account_at(storage.server_port))

    assert len(storage.requests) == 1


@of_every_kind
def test_a_request_that_hangs_is_repeated_once_where_that_does_no_harm(
    storage: ScriptedStorage, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody waits for the logs of attempts and counts as long as for the others."""
    is_log = work in (WORK["write attempt"], WORK["write count"])
    for module in (bounded_retry, sender_module):
        monkeypatch.setattr(module, "READ_SECONDS", 300 if is_log else 0.3)
        monkeypatch.setattr(module, "LIMIT_SECONDS", 300)
    monkeypatch.setattr(day_tables, "WRITE_SECONDS", 0.3 if is_log else 300)
    go_on = threading.Event()
    storage.choose = lambda _: Answer(0) if go_on.wait(30) else Answer(500)

    with pytest.raises(StorageUnavailable):
        work(account_at(storage.server_port))

    go_on.set()
    assert len(storage.requests) == work.tries_while_it_hangs


@pytest.mark.parametrize(
    ("act", "status"),
    [
        *((act, 403) for act in [*EVERYTHING, "delete message"]),
        *(("put message", status) for status in (400, 403, 409, 413)),
    ],
)
def test_a_refusal_by_any_service_is_unavailable_and_not_repeated(
    storage: ScriptedStorage,
    act: str,
    status: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A role that is not assigned (yet) loses nothing, and the operator reads why."""
    storage.script = [Answer(status, "AuthorizationPermissionMismatch")]

    with pytest.raises(StorageUnavailable) as caught, caplog.at_level(logging.ERROR):
        WORK[act](account_at(storage.server_port))

    assert caught.value.__cause__ is not None
    assert not isinstance(caught.value, StorageUnreachable)
    assert len(storage.requests) == 1
    (line,) = [json.loads(record.message) for record in caplog.records]
    assert (line["event"], line["status"]) == ("storage.failed", status)
    assert line["code"] == "AuthorizationPermissionMismatch"


def test_an_account_that_does_not_answer_is_unreachable() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        away = account_at(unused.getsockname()[1])
        with pytest.raises(StorageUnreachable):
            WORK["write dead letter"](away)


def test_a_container_that_is_being_deleted_is_missing(storage: ScriptedStorage) -> None:
    storage.script = [Answer(409, "ContainerBeingDeleted")]
    store = StorageDeadLetters(account_at(storage.server_port))

    assert not store.write(DEAD, "a.json", b"[]")


def test_a_table_that_is_being_deleted_is_not_empty(storage: ScriptedStorage) -> None:
    storage.script = [Answer(409, "TableBeingDeleted")]

    with pytest.raises(StorageUnavailable):
        WORK["read table"](account_at(storage.server_port))


@pytest.mark.parametrize("work", WORK.values(), ids=WORK)
@pytest.mark.parametrize("status", [201, 403, 404])
def test_every_answer_tells_storages_time(
    storage: ScriptedStorage, work: Work, status: int
) -> None:
    """By the clock of a process that has started two hours ahead: that is known at once."""
    jumps: list[ClockNote] = []
    storage.script = [Answer(status, body=STORED)]
    storage.now = lambda: utc_now() - 2 * HOUR
    clock = WatchedClock(utc_now, monotonic, jumps.append, awaits_storage=True)

    with suppress(Exception):
        work(account_at(storage.server_port, clock.storage_answered))

    assert not clock.is_trusted
    assert {each.what for each in jumps} == {STORAGE}
    assert [round(each.seconds / 3600, 2) for each in jumps] == [2.0]


def test_an_answer_that_comes_late_is_no_jump(storage: ScriptedStorage) -> None:
    """It was made when the request arrived: the clock is right."""
    said: list[tuple[datetime | None, float]] = []
    account = account_at(storage.server_port, lambda *each: said.append(each))
    arrived = threading.Event()

    def late(_: bytes) -> Answer:
        arrived.wait(0.2)
        return Answer(201, body=STORED)

    storage.choose = late

    put_message(account)
    StorageResources(account).put(*ORDERS, {}, None)

    assert [bool(told) for told, _ in said] == [True, True]
    assert all(seconds >= 0.2 for _, seconds in said)
