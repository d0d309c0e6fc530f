"""A running deployment tells who subscribes to it of what went wrong."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from devhost.azurite import running_azurite
from devhost.process import running_host
from shared.adapters.azure_storage.clients import StorageClients
from shared.adapters.azure_storage.metrics import StorageMetrics
from shared.adapters.azure_storage.tables import StorageResources
from shared.clock import timestamp
from shared.engine.ports import Table
from shared.metrics import CountRow, Metric, Series, Span, Sum
from testbed.arm import Arm
from testbed.host_settings import host_settings
from testbed.subscriber import Subscriber

_DROPPED = Series(Metric.DROPPED, (("DropReason", "TimeToLiveExceeded"),))


def test_what_the_counts_of_a_minute_say_is_pushed(
    subscriber: Callable[..., Subscriber], name: str
) -> None:
    """The minute has passed before the host runs, so that nobody waits for one to pass."""
    ops, now = subscriber(), datetime.now(UTC)
    minute = now.replace(second=0, microsecond=0) - timedelta(minutes=4)
    starts = {Span.MINUTE: minute, Span.HOUR: minute.replace(minute=0)}
    with running_azurite() as azurite:
        account = StorageClients({"": azurite.connection_string})
        rows = [
            CountRow(span, start, name, "crm", "another", {_DROPPED: Sum(3, 1, 3, 3)})
            for span, start in starts.items()
        ]
        with running_host(host_settings(azurite, PUSHGRID_CACHE_SECONDS="0")) as host:
            arm = Arm(host.url)
            arm.create_topic(name)  # makes the tables
        StorageMetrics(account).write(rows)
        told = {"until": timestamp(minute)}
        StorageResources(account).put(Table.TOPICS, "state", "troubles", told, None)
        with running_host(host_settings(azurite, PUSHGRID_CACHE_SECONDS="0")) as host:
            Arm(host.url).create_deployment_subscription("ops", ops.url)
            assert ops.wait_for(bool)

    ((event,),) = [push.events for push in ops.pushes]
    assert event["eventType"] == "Pushgrid.EventsDropped"
    assert event["topic"].endswith("/providers/Pushgrid/deployments/this-deployment")
    assert event["data"] == {
        "topic": name,
        "subscription": "crm",
        "minute": timestamp(minute),
        "count": 3,
        "reasons": {"TimeToLiveExceeded": 3},
        "cause": "",
        "remedy": "nothing: the event subscription was deleted",
    }
