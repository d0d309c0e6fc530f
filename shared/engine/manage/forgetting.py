"""What goes with event subscriptions that are deleted: what is known of their endpoints."""

from __future__ import annotations

from shared import telemetry
from shared.engine.manage.call import ManagePorts
from shared.engine.ports import Table
from shared.errors import StorageUnavailable


def forget_health(ports: ManagePorts, topic: str, name: str | None = None) -> None:
    """
    Delete the health of one subscription's endpoint or, without *name*, of all of a topic.

    Best effort: a row that is left is about a generation that is no more, and does no harm.
    """
    try:
        rows = [] if name else ports.resources.list(Table.ENDPOINT_HEALTH, topic)
        for each in [name] if name else [str(row.document.get("name")) for row in rows]:
            ports.resources.delete(Table.ENDPOINT_HEALTH, topic, each)
    except StorageUnavailable as error:
        telemetry.error("health.kept", topic=topic, subscription=name, detail=str(error))
