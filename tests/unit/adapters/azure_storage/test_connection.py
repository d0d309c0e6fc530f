"""Connections as the Functions host reads them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

import pytest

from shared.adapters.azure_storage.clients import StorageClients
from shared.adapters.azure_storage.connection_setting import StorageConnection
from shared.adapters.azure_storage.queues import whole_seconds
from shared.errors import InvalidSettings

KEY = "a2V5"
OF_AZURE = "https://acc.{}.core.windows.net"
URIS = {f"{each}ServiceUri": OF_AZURE.format(each) for each in ("blob", "queue", "table")}


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
        ({name: f"{value}/" for name, value in URIS.items()}, "acc"),
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
    ("storage", "url"),
    [
        (
            {"": f"AccountName=acc;AccountKey={KEY};EndpointSuffix=core.chinacloudapi.cn"},
            "https://acc.{}.core.chinacloudapi.cn",
        ),
        ({"accountName": "acc", "credential": "managedidentity", "clientId": "id"}, OF_AZURE),
        # As on the host: the name counts more than the addresses.
        ({**URIS, "accountName": "other"}, "https://other.{}.core.windows.net"),
        (URIS, OF_AZURE),
    ],
)
def test_clients_go_to_their_services(storage: Mapping[str, str], url: str) -> None:
    account = StorageClients(storage)

    assert account.queue("deliveries").url == f"{url.format('queue')}/deliveries"
    assert account.container("payloads").url == f"{url.format('blob')}/payloads"
    assert account.table("topics").url == url.format("table")


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
