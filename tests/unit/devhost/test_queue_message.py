"""A queue function's input."""

from datetime import UTC, datetime

import azure.functions as func
import pytest

from devhost.queue import message as queue_message
from devhost.queue.storage import ReceivedMessage

MESSAGE = ReceivedMessage(
    id="the id",
    pop_receipt="the receipt",
    dequeue_count=3,
    insertion_time=datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC),
    expiration_time=datetime(2026, 11, 28, 12, 0, 0, tzinfo=UTC),
    next_visible_time=datetime(2026, 11, 21, 12, 10, 0, tzinfo=UTC),
    text="",
)


def seen(body: bytes) -> func.QueueMessage:
    """Return what the converter of azure.functions makes of it, as the worker does."""
    datum = queue_message.body_datum(body, binary=False)
    converter = func.get_binding_registry().get("queueTrigger")
    message: func.QueueMessage = converter.decode(
        datum, trigger_metadata=queue_message.metadata(MESSAGE, datum)
    )
    return message


def test_a_json_body_takes_the_place_of_the_metadata():
    """As in the real host: case-insensitive, and not by arrays or nulls."""
    message = seen(b'{"ID": "mine", "dequeueCount": 7, "popreceipt": null, "insertionTime": [1]}')

    assert (message.id, message.dequeue_count, message.pop_receipt) == ("mine", 7, "the receipt")
    assert message.insertion_time == MESSAGE.insertion_time


@pytest.mark.parametrize(
    "body", [b'["id"]', b'{"id": "x"', b'{"a": {"id": "x"}}', b"[" * 9000], ids=range(4)
)
def test_other_bodies_change_nothing(body):
    assert seen(body).id == "the id"


@pytest.mark.parametrize("text", ["plain text", "YQ=", "grüße"])
def test_decode_refuses_what_is_not_base64(text):
    with pytest.raises(queue_message.UndecodableError):
        queue_message.decode(text, is_base64=True)
