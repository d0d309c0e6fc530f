"""Connections as the Functions host reads them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

import pytest

from shared.adapters.storage.clients import StorageClients
from shared.adapters.storage.connection_setting import StorageConnection
from shared.adapters.storage.queues import whole_seconds
from shared.errors import InvalidSettings

KEY = "a2V5"
URIS = {
    "blobServiceUri": "https://acc.blob.core.windows.net/",
    "queueServiceUri": "https://acc.queue.core.windows.net",
    "tableServiceUri": "https://acc.table.core.windows.net",
}


@pytest.mark.parametrize(
    ("storage", "account"),
    [
        ({"": "UseDevelopmentStorage=true"}, "devstoreaccount1"),
        ({"": f"AccountName=acc;AccountKey={KEY};EndpointSuffix=core.chinacloudapi.cn"}, "acc"),
        ({"": f"DefaultEndpointsProtocol=https;accountname=acc;AccountKey={KEY};"}, "acc"),
        ({"": "BlobEndpoint=https://acc.blob.core.windows.net;SharedAccessSignature=x"}, "acc"),
        ({"": "BlobEndpoint=http://127.0.0.1:10000/acc;SharedAccessSignature=x"}, "acc"),
        ({"accountName": "acc"}, "acc"),
        ({"accountName": "acc", "credential": "managedidentity", "clientId": "id"}, "acc"),
        (URIS, "acc"),
        ({name.upper(): value for name, value in URIS.items()}, "acc"),
    ],
)
def test_the_account_is_known(storage: Mapping[str, str], account: str) -> None:
    assert StorageClients(storage).account_name == account


@pytest.mark.parametrize(
    ("storage", "complaint"),
    [
        ({"": "hello"}, "AccountName"),
        ({"": ""}, "blobServiceUri"),
        ({}, "blobServiceUri"),
        ({"blobServiceUri": "https://acc.blob.core.windows.net"}, "queueServiceUri"),
        ({**URIS, "tableServiceUri": ""}, "tableServiceUri"),
        ({**URIS, "credential": "azurecli"}, "AzureWebJobsStorage__credential: not one of"),
        ({**URIS, "queueServiceUri": "http://acc.queue.core.windows.net"}, "not an https URL"),
        (
            {**URIS, "tableServiceUri": "acc"},
            "AzureWebJobsStorage__tableServiceUri: not an https URL",
        ),
        ({"serviceUri": "https://acc.blob.core.windows.net"}, "blobServiceUri: is not set"),
        # It would become part of a host name, which errors quote.
        ({"accountName": f"AccountName=acc;AccountKey={KEY}"}, "__accountName: not the name of"),
        ({"accountName": "acc/secret"}, "__accountName: not the name of"),
    ],
)
def test_what_names_no_account_is_refused(storage: Mapping[str, str], complaint: str) -> None:
    with pytest.raises(InvalidSettings, match=complaint) as raised:
        StorageConnection(storage)

    (fault,) = raised.value.faults
    assert fault.target
    assert fault.message.startswith(f"{fault.target}: ")
    assert KEY not in fault.message


@pytest.mark.parametrize(
    ("storage", "queue", "blob", "table"),
    [
        (
            {"": "UseDevelopmentStorage=true"},
            "http://127.0.0.1:10001/devstoreaccount1/deliveries",
            "http://127.0.0.1:10000/devstoreaccount1/payloads",
            "http://127.0.0.1:10002/devstoreaccount1",
        ),
        (
            {"": f"AccountName=acc;AccountKey={KEY};EndpointSuffix=core.chinacloudapi.cn"},
            "https://acc.queue.core.chinacloudapi.cn/deliveries",
            "https://acc.blob.core.chinacloudapi.cn/payloads",
            "https://acc.table.core.chinacloudapi.cn",
        ),
        (
            {"accountName": "acc", "credential": "managedidentity", "clientId": "id"},
            "https://acc.queue.core.windows.net/deliveries",
            "https://acc.blob.core.windows.net/payloads",
            "https://acc.table.core.windows.net",
        ),
        (
            # As on the host: the name counts more than the addresses.
            {**URIS, "accountName": "other"},
            "https://other.queue.core.windows.net/deliveries",
            "https://other.blob.core.windows.net/payloads",
            "https://other.table.core.windows.net",
        ),
        (
            URIS,
            "https://acc.queue.core.windows.net/deliveries",
            "https://acc.blob.core.windows.net/payloads",
            "https://acc.table.core.windows.net",
        ),
    ],
)
def test_clients_go_to_their_services(
    storage: Mapping[str, str], queue: str, blob: str, table: str
) -> None:
    account = StorageClients(storage)

    assert account.queue("deliveries").url == queue
    assert account.container("payloads").url == blob
    assert account.table("topics").url == table


@pytest.mark.parametrize(
    ("wait", "seconds"),
    [
        (timedelta(), 0),
        (timedelta(microseconds=1), 1),
        (timedelta(seconds=1), 1),
        (timedelta(seconds=1, microseconds=1), 2),
        (timedelta(seconds=-1), 0),
        (timedelta(days=7), 604800),
        (timedelta(days=7, seconds=1), 604800),
    ],
)
def test_waits_are_whole_seconds_that_a_queue_can_do(wait: timedelta, seconds: int) -> None:
    assert whole_seconds(wait) == seconds
