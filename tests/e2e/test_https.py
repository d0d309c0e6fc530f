"""The host over https: what clients need is printed, and nothing else changes for them."""

from __future__ import annotations

import ssl
import urllib.request
from collections.abc import Callable, Iterator
from urllib.error import URLError

import pytest
from azure.mgmt.eventgrid import EventGridManagementClient
from azure.mgmt.eventgrid import models as m

from devhost.azurite import Azurite
from devhost.process import RunningHost, running_host
from testbed.host_settings import host_settings
from testbed.subscriber import Subscriber
from tests.e2e.managing import webhook
from tests.e2e.operator import Credential
from tests.e2e.publishing import an_event, endpoint, ids, publish_with_javascript, send

GROUP = "local"


@pytest.fixture(scope="module")
def host(own_azurite: Azurite, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningHost]:
    settings = host_settings(own_azurite)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data")))
        with running_host(settings, options=["--tls"]) as running:
            yield running


@pytest.fixture
def trusted(host: RunningHost, monkeypatch: pytest.MonkeyPatch) -> RunningHost:
    """The host, and its clients have the variables that it printed."""
    for variable, value in host.variables.items():
        monkeypatch.setenv(variable, value)
    return host


def test_publishers_work_unchanged(
    trusted: RunningHost, subscriber: Callable[..., Subscriber], name: str
) -> None:
    receiver = subscriber()
    # Over https its own policy sends the key.
    with EventGridManagementClient(
        Credential(), "0", base_url=trusted.url, polling_interval=0
    ) as arm:
        topic = arm.topics.begin_create_or_update(GROUP, name, m.Topic(location="local")).result()
        arm.topic_event_subscriptions.begin_create_or_update(
            GROUP, name, "crm", m.EventSubscription(destination=webhook(receiver))
        ).result()
        key = str(arm.topics.list_shared_access_keys(GROUP, name).key1)
    by_python, by_javascript = an_event(1), {"id": "js", "subject": "/orders/2", "data": {}}
    by_javascript |= {"eventType": "Shop.OrderPlaced", "dataVersion": "1.0"}

    send(trusted.url, name, key, [by_python])
    run = publish_with_javascript(
        endpoint=topic.endpoint, schema="EventGrid", key=key, events=[by_javascript]
    )

    assert run.returncode == 0, run.stderr
    assert topic.endpoint == endpoint(trusted.url, name)
    assert trusted.url.startswith("https://127.0.0.1:")
    receiver.wait_for(lambda pushes: ids(pushes) >= {by_python.id, "js"})


def test_nobody_trusts_it_without_what_it_prints(host: RunningHost) -> None:
    with pytest.raises(URLError) as refused:
        urllib.request.urlopen(f"{host.url}/status/health")
    assert isinstance(refused.value.reason, ssl.SSLCertVerificationError)
