"""Pusher into storage queues: on Azurite, by key and by identity, and on storage that fails."""

from __future__ import annotations

import queue
import threading
from base64 import b64decode
from collections.abc import Iterator
from datetime import timedelta
from time import monotonic

import pytest

from pushgrid.testing.memory import FakeClock, ScriptedPusher
from shared.adapters.azure_storage.clients import StorageClients
from shared.adapters.azure_storage.queue_pusher import QueuePusher
from shared.adapters.azure_storage.sender import MessagePut
from shared.http import (
    Answered,
    Exchange,
    Failure,
    LateAnswerHandler,
    NotAnswered,
    OutboundRequest,
    QueueAddress,
)
from shared.wiring.outbound import storage_pusher
from tests.contract.scripted_storage import Answer, ScriptedStorage
from tests.contract.test_storage_faults import account_at
from tests.senders import THREADS
from tests.serving import serving

SOON = timedelta(seconds=10)


@pytest.fixture(params=["azurite", "identity"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def storage() -> Iterator[ScriptedStorage]:
    with serving(ScriptedStorage()) as server:
        yield server


def push(
    account: StorageClients,
    request: OutboundRequest,
    timeout: timedelta = SOON,
    late: LateAnswerHandler | None = None,
) -> Exchange:
    storage = storage_pusher(monotonic)
    puts = {"acct": MessagePut(account, storage.send, THREADS.pool("puts", 4))}
    pusher = QueuePusher(ScriptedPusher(FakeClock()), storage, puts)
    return THREADS.on_loop(pusher.send(request, timeout, late))


def put(
    name: str, body: bytes = b"{}", seconds: int = 60, account: str = "acct"
) -> OutboundRequest:
    return OutboundRequest("POST", "", {}, body, queue=QueueAddress(account, name, seconds))


def status_of(exchange: Exchange) -> int:
    assert isinstance(exchange, Answered)
    return exchange.status


@pytest.mark.parametrize(("seconds", "days"), [(3600, 0), (8 * 24 * 3600, 8), (-1, 365)])
def test_a_body_is_a_message_in_base64_for_its_time(
    account: StorageClients, seconds: int, days: int
) -> None:
    mine = account.queue("mine")
    mine.create_queue()
    body = '{"subject":"\u00fc <&>"}'.encode()

    assert status_of(push(account, put(mine.queue_name, body, seconds))) == 200

    [message] = mine.receive_messages()
    assert b64decode(message.content) == body
    assert message.inserted_on
    assert message.expires_on
    assert message.expires_on - message.inserted_on >= timedelta(days=days, hours=days == 0)


def test_a_missing_queue_is_not_made(account: StorageClients) -> None:
    for _ in range(2):
        assert status_of(push(account, put("missing"))) == 404


def test_a_message_has_64_kilobytes(account: StorageClients) -> None:
    mine = account.queue("mine")
    mine.create_queue()

    assert status_of(push(account, put(mine.queue_name, b"x" * 48 * 1024))) == 200


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (Answer(201), 200),
        (Answer(400, "OutOfRangeInput"), 400),
        (Answer(403, "AuthenticationFailed", b"<Error>signature</Error>"), 403),
        (Answer(401, "NoAuthenticationInformation"), 401),
        (Answer(404, "QueueNotFound"), 404),
        (Answer(409, "QueueBeingDeleted"), 409),
        (Answer(413, "RequestBodyTooLarge"), 413),
        (Answer(429, "TooManyRequests"), 429),
        (Answer(500, "OperationTimedOut"), 500),
        (Answer(503, "ServerBusy"), 503),
    ],
)
def test_storage_is_asked_once_and_its_answer_is_the_outcome(
    storage: ScriptedStorage, answer: Answer, status: int
) -> None:
    """The delivery rules say when it is asked again."""
    storage.script = [answer]

    exchange = push(account_at(storage.server_port), put("mine"))

    assert isinstance(exchange, Answered)
    assert (exchange.status, exchange.body) == (status, answer.code.encode())
    assert len(storage.requests) == 1


def test_storage_is_not_asked_for_what_no_message_holds(storage: ScriptedStorage) -> None:
    exchange = push(account_at(storage.server_port), put("mine", b"x" * (48 * 1024 + 1)))

    assert (status_of(exchange), storage.requests) == (413, [])


def test_storage_that_is_not_there_is_no_answer() -> None:
    exchange = push(account_at(1), put("mine"))

    assert isinstance(exchange, NotAnswered)
    assert exchange.failure is Failure.SOCKET


def test_storage_that_does_not_answer_in_time_has_not_accepted(storage: ScriptedStorage) -> None:
    """Its answer counts when it comes."""
    answers, told = threading.Event(), queue.Queue[Answered]()

    def choose(_: bytes) -> Answer:
        answers.wait(60)
        return Answer(201)

    storage.choose = choose
    late = LateAnswerHandler(timedelta(seconds=60), told.put)

    exchange = push(account_at(storage.server_port), put("mine"), timedelta(seconds=1), late)
    answers.set()

    assert isinstance(exchange, NotAnswered)
    assert exchange.failure is Failure.TIMED_OUT
    assert told.get(timeout=60).status == 201


def test_an_account_that_nobody_names_is_not_asked(storage: ScriptedStorage) -> None:
    exchange = push(account_at(storage.server_port), put("mine", account="other"))

    assert isinstance(exchange, NotAnswered)
    assert exchange.failure is Failure.NOT_ALLOWED
    assert storage.requests == []


def test_a_request_without_a_queue_is_sent_as_ever() -> None:
    webhooks = ScriptedPusher(FakeClock())
    request = OutboundRequest("POST", "https://crm.example/", {}, b"[]")

    THREADS.on_loop(QueuePusher(webhooks, webhooks, {}).send(request, SOON))

    assert [sent.request for sent in webhooks.sent] == [request]
