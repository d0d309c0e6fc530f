"""Dead letters on their queue, and what a run of their timer makes of them."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

from pushgrid.testing.memory import START
from shared.delivery.messages.message import MessagePart
from shared.engine.ports import Queue
from shared.subscriptions.subscription import EventSubscription
from tests.builders import a_delivery, a_message, a_note, a_topic
from tests.functional.deployment import Deployment

HOUR = timedelta(hours=1)
#: Of an account that may be away for long.
LONG = a_note(keep_until=START + 24 * HOUR)
SOURCE = "/subscriptions/s1/resourceGroups/rg/providers/Microsoft.Storage/storageAccounts/testing"
ACCOUNT = a_topic(name="system-testing", arm_id=SOURCE, keys=())


def dead(*positions: int, **overrides: Any) -> MessagePart:
    values = {"dead_letter": overrides.pop("note", a_note())}
    return a_message([a_delivery(number) for number in positions], **values | overrides)


def run(app: Deployment) -> None:
    app.write_dead_letters.run(app.in_a_minute())


def written(app: Deployment) -> list[tuple[str, list[str]]]:
    """Say for each blob where it is, without its id, and which events it has."""
    return sorted(
        (f"{container}/{path.rpartition('/')[0]}", [each["id"] for each in json.loads(body)])
        for (container, path), body in app.dead_letters.blobs.items()
    )


def records(app: Deployment) -> list[str]:
    """Return the ids of the events in all blobs."""
    return sorted(event for _, events in written(app) for event in events)


def subscribe(app: Deployment, **overrides: Any) -> EventSubscription:
    """Subscribe to the storage account of the dead letters."""
    app.directory.topics[ACCOUNT.name] = ACCOUNT
    values = {"topic": ACCOUNT.name, "topic_id": SOURCE, "name": "ops", "generation": "g-ops"}
    return app.subscribe(**values | overrides)


def notices(app: Deployment) -> set[str]:
    """Return the blobs of the notices that wait for delivery."""
    found = set()
    for each in [each for part in app.on(Queue.DELIVERIES) for each in part.deliveries]:
        event = json.loads(each.text or "")
        found.add((event["subject"], event["id"], each.origin.publish_id))
    subjects = {subject for subject, *_ in found}
    assert len(subjects) == len(found)  # a repeat has the same ids
    return subjects


def blobs(app: Deployment) -> set[str]:
    """Return the subjects of all blobs."""
    return {
        f"/blobServices/default/containers/{container}/blobs/{path}"
        for container, path in app.dead_letters.blobs
    }
