"""Rows Q1-Q3, Q5-Q10, Q12, Q13 and Q15: queue functions on one host with the usual settings."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta

import pytest

from tests.host.app import App
from tests.host.running import Host, running, until
from tests.host.storage import Storage, encoded

_BATCH, _THRESHOLD = 4, 2
_LISTENING = ("Q01", "Q02", "Q03", "Q05", "Q06", "Q07", "Q08", "Q09", "Q10", "Q13", "Q15", "Q15B")


@pytest.fixture(scope="module")
def queues(storage: Storage) -> dict[str, str]:
    """The queue of each function; Q12's does not exist."""
    return {name: storage.queue(name.lower()) for name in _LISTENING} | {
        "Q12": storage.new_name("q12")
    }


@pytest.fixture(scope="module")
def host(
    new_app: Callable[[], App], queues: dict[str, str], settings: dict[str, str]
) -> Iterator[Host]:
    app = new_app()
    app.host_json(
        batchSize=_BATCH,
        newBatchThreshold=_THRESHOLD,
        maxDequeueCount=5,
        # How long a failed message waits, not how long a received one is hidden (Q1).
        visibilityTimeout="00:00:01",
    )
    for name, queue in queues.items():
        app.queue(name, queue, **({"dataType": "binary"} if name == "Q15B" else {}))
    app.break_import("Q13")
    with running(app, settings) as started:
        yield started


def test_q01_a_received_message_is_hidden_for_ten_minutes(host, queues, storage):
    """
    Q1: a received message is hidden for ten minutes, whatever host.json says.

    Source: azure-sdk-for-net, Storage.Common Listeners/QueueListener.cs (2024-10).
    """
    gate = host.app.gate()
    storage.send(queues["Q01"], f"wait {gate}")
    (call,) = host.wait_calls("Q01")

    assert storage.client(queues["Q01"]).peek_messages() == []
    gate.touch()
    # It was received after it was inserted and before the call; storage counts whole seconds.
    visible = datetime.fromisoformat(call["time_next_visible"])
    assert visible - datetime.fromisoformat(call["insertion_time"]) >= timedelta(minutes=10)
    assert visible.timestamp() - call["at"] <= 601
    storage.wait_empty(queues["Q01"])


def test_q02_success_deletes(host, queues, storage):
    """
    Q2: a message whose function returned is deleted.

    Source: Storage.Common Queues/QueueProcessor.cs, CompleteProcessingMessageAsync (2024-10).
    """
    storage.send(queues["Q02"], "hello")

    (call,) = host.wait_calls("Q02")

    assert base64.b64decode(call["body"]) == b"hello"
    storage.wait_empty(queues["Q02"])
    assert len(host.calls("Q02")) == 1


def test_q03_a_function_that_always_fails_runs_five_times(host, queues, storage):
    """
    Q3: maxDequeueCount calls, then the same body in the poison queue.

    Source: Storage.Common Queues/QueueProcessor.cs; docs, functions-bindings-storage-queue-trigger,
    Poison messages (2026).
    """
    storage.send(queues["Q03"], "raise")

    assert storage.wait_poison(queues["Q03"]) == encoded(b"raise")

    assert [call["dequeue_count"] for call in host.calls("Q03")] == [1, 2, 3, 4, 5]
    storage.wait_empty(queues["Q03"])


@pytest.mark.usefixtures("host")
def test_q05_the_poison_queue_is_created_when_needed(queues, storage):
    """
    Q5, first half: no poison queue until a message has to go there.

    Source: Storage.Common Queues/QueueProcessor.cs, CopyMessageToPoisonQueueAsync (2024-10).
    """
    storage.send(queues["Q05"], "fine")
    storage.wait_empty(queues["Q05"])
    assert storage.count(f"{queues['Q05']}-poison") == -1

    storage.send(queues["Q05"], "raise")

    storage.wait_poison(queues["Q05"])


def test_q06_a_function_may_delete_its_message(host, queues, storage):
    """
    Q6: the host's own delete then finds nothing, and that is no failure.

    Source: Storage.Common Queues/QueueProcessor.cs ("may be expected"); azure-webjobs-sdk#2799.
    """
    storage.send(queues["Q06"], f"delete {storage.signed_url(queues['Q06'])}")

    host.wait_calls("Q06", moment="end")

    assert storage.count(queues["Q06"]) == 0
    storage.send(queues["Q06"], "next")
    host.wait_calls("Q06", 2)
    storage.wait_empty(queues["Q06"])
    assert len(host.calls("Q06")) == 2
    assert storage.count(f"{queues['Q06']}-poison") == -1


def test_q07_a_function_may_hide_its_message_longer(host, queues, storage):
    """
    Q7: an update in the function stands; the message comes back then, counted once more.

    Source: Storage.Common Queues/QueueProcessor.cs; azure-webjobs-sdk#1040, #2434.
    """
    storage.send(queues["Q07"], f"hide 2 {storage.signed_url(queues['Q07'])}")

    first, second = host.wait_calls("Q07", 2)

    assert [first["dequeue_count"], second["dequeue_count"]] == [1, 2]
    assert first["id"] == second["id"]
    assert second["at"] - first["at"] >= 2.0
    storage.wait_empty(queues["Q07"])
    assert len(host.calls("Q07")) == 2


def test_q08_a_json_body_replaces_the_metadata(host, queues, storage):
    """
    Q8: top-level properties of a JSON object replace the message's own.

    Source: azure-functions-host WebJobs.Script/Utility.cs, ApplyBindingData; python-worker#1373.
    """
    storage.send(queues["Q08"], '{"id": "mine", "dequeueCount": 7, "popReceipt": "slip"}')

    (call,) = host.wait_calls("Q08")

    assert (call["id"], call["dequeue_count"], call["pop_receipt"]) == ("mine", 7, "slip")
    storage.wait_empty(queues["Q08"])


def test_q08_metadata_that_cannot_be_converted_is_poison(host, queues, storage):
    """Q8, second half: the function is not even entered. Source: as above."""
    before = len(host.calls("Q08"))

    storage.send(queues["Q08"], '{"dequeueCount": "abc"}')

    assert storage.wait_poison(queues["Q08"]) == encoded(b'{"dequeueCount": "abc"}')
    assert len(host.calls("Q08")) == before


def test_q09_a_message_that_is_not_base64_is_poison_at_once(host, queues, storage):
    """
    Q9: on first receipt, as it is; the function does not run.

    Source: Extensions.Storage.Queues QueueServiceClientProvider.cs, MessageDecodingFailed.
    """
    storage.client(queues["Q09"]).send_message("not base64!")

    assert storage.wait_poison(queues["Q09"]) == "not base64!"

    assert host.calls("Q09") == []
    storage.wait_empty(queues["Q09"])


def test_q10_no_more_than_batch_and_threshold_run_at_once(host, queues, storage):
    """
    Q10: at most batchSize + newBatchThreshold run at once, and that many do.

    A batch is received while two messages run, and twelve wait for it.
    Source: Storage.Common Queues/QueuesOptions.cs; docs, functions-bindings-storage-queue (2026).
    """
    first, filler, last = (host.app.gate() for _ in range(3))
    for started, gate in enumerate((first, first, filler), 1):
        storage.send(queues["Q10"], f"wait {gate}")
        host.wait_calls("Q10", started)
    # Three run, one more than the threshold: nothing is received until the filler ends.
    for _ in range(12):
        storage.send(queues["Q10"], f"wait {last}")
    filler.touch()
    host.wait_calls("Q10", 1 + _BATCH + _THRESHOLD)
    for gate in (first, last):
        gate.touch()
    host.wait_calls("Q10", 15, moment="end")

    assert host.most_at_once("Q10") == _BATCH + _THRESHOLD
    storage.wait_empty(queues["Q10"])
    assert len(host.calls("Q10")) == 15


def test_q12_a_queue_that_is_created_later_is_served(host, queues, storage):
    """
    Q12: a trigger does not create its queue, and serves it once it exists.

    Source: Storage.Common Queues/QueueListener.cs (2024-10).
    """
    assert storage.count(queues["Q12"]) == -1

    storage.client(queues["Q12"]).create_queue()
    storage.send(queues["Q12"], "at last")

    host.wait_calls("Q12")
    storage.wait_empty(queues["Q12"])


def test_q13_a_function_that_cannot_be_imported_fails_each_message(host, queues, storage):
    """
    Q13: its messages end in the poison queue; the other functions work.

    Source: azure-functions-host Script.Grpc/Channel/GrpcWorkerChannel.cs, _functionLoadErrors.
    """
    storage.send(queues["Q13"], "lost")
    storage.send(queues["Q05"], "served")

    assert storage.wait_poison(queues["Q13"]) == encoded(b"lost")
    until(lambda: encoded(b"served") in [call["body"] for call in host.calls("Q05")])
    storage.wait_empty(queues["Q05"])


@pytest.mark.parametrize(
    ("function", "body"),
    [
        ("Q15", "grüße ☃ 𝄞 \u0000".encode()),
        ("Q15", b'{"a": [1, null]}'),
        ("Q15", b"x" * 49_152),
        ("Q15B", bytes(range(256)) * 192),
    ],
    ids=["utf-8", "json", "48 KiB", "48 KiB of any bytes"],
)
def test_q15_a_body_arrives_as_it_was_sent(host, queues, storage, function, body):
    """
    Q15: text as UTF-8, any bytes with `"dataType": "binary"`, up to 48 KiB.

    Source: python-worker bindings, azure.functions queue.py; 64 KiB as stored, in base64.
    """
    storage.send(queues[function], body)

    until(
        lambda: base64.b64encode(body).decode() in [call["body"] for call in host.calls(function)]
    )

    storage.wait_empty(queues[function])
