"""Other accounts for dead letters: how the setting names them, and how they are reached."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from shared.adapters.azure_storage.clients import StorageClients
from shared.adapters.azure_storage.connection_setting import Service, connections_beside
from shared.errors import InvalidSettings
from shared.settings import from_environ, unknown, unresolved
from shared.settings.storage_settings import deadletter_accounts, has_queues
from shared.wiring.function_app import FunctionApp

NAME = "PUSHGRID_DEADLETTER_ACCOUNTS"
ENDPOINT = "https://archive1.blob.core.windows.net"
QUEUES = "https://archive1.queue.core.windows.net"
CONNECTION = "AccountName=archive2;AccountKey=a2V5;EndpointSuffix=core.windows.net"
IDENTITY = {"accountName": "acc", "credential": "managedidentity", "clientId": "id"}
REFERENCE = "@Microsoft.KeyVault(SecretUri=https://kv-x.vault.azure.net/secrets/archive2)"


def test_an_account_is_named_with_its_endpoint_or_with_a_setting() -> None:
    text = f" archive1={ENDPOINT}/ , archive2 = ARCHIVE2,"

    assert deadletter_accounts(text, {"ARCHIVE2": f" {CONNECTION} "}) == {
        "archive1": {"blobServiceUri": ENDPOINT, "queueServiceUri": QUEUES},
        "archive2": {"": CONNECTION},
    }


@pytest.mark.parametrize(
    ("blobs", "queues"),
    [
        (
            "https://archive1.z01.blob.storage.azure.net",
            {"queueServiceUri": "https://archive1.z01.queue.storage.azure.net"},
        ),
        (
            "https://archive1.blob.core.chinacloudapi.cn",
            {"queueServiceUri": "https://archive1.queue.core.chinacloudapi.cn"},
        ),
        ("https://archive1.example/", {}),
        ("https://127.0.0.1:10000/archive1", {}),
    ],
)
def test_an_endpoint_can_be_of_any_cloud(blobs: str, queues: dict[str, str]) -> None:
    """Where the queues are follows from Azure's names alone."""
    assert deadletter_accounts(f"archive1={blobs}", {}) == {
        "archive1": {"blobServiceUri": blobs.rstrip("/"), **queues}
    }


@pytest.mark.parametrize(
    ("connection", "expected"),
    [
        ({}, True),  # Key Vault has not answered yet
        ({"": CONNECTION}, True),
        ({"": "QueueEndpoint=https://q.example;SharedAccessSignature=sig"}, True),
        ({"": "BlobEndpoint=https://b.example;SharedAccessSignature=AccountName"}, False),
        ({"blobServiceUri": ENDPOINT, "queueServiceUri": QUEUES}, True),
        ({"blobServiceUri": ENDPOINT}, False),
    ],
)
def test_a_connection_says_where_the_queues_are(
    connection: Mapping[str, str], *, expected: bool
) -> None:
    assert has_queues(connection) is expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("archive1", "entry 1 needs the account's blob endpoint, or the name of a setting"),
        ("archive1=a b", "entry 1 needs the account's blob endpoint, or the name of a setting"),
        (f"Archive1={ENDPOINT}", "entry 1 does not begin with the name of a storage account"),
        (f"={ENDPOINT}", "entry 1 does not begin with the name of a storage account"),
        (f"archive1={ENDPOINT};archive2=ARCHIVE2", "entry 1 needs the account's blob endpoint, li"),
        (f"archive1={ENDPOINT},archive1=ARCHIVE2", "entry 2 names an account again"),
        ("archive1=ARCHIVE1", "entry 1 names a setting that is not set"),
        ("archive1=http://archive1.blob.core.windows.net", "tokens need https"),
        (f"archive1={ENDPOINT}/dead", "like https://NAME.blob.…, alone: leave out its path"),
        (f"archive1={ENDPOINT}?sv=1&sig=x", "alone: leave out what follows '?' or '#'"),
        (f"archive2={ENDPOINT}", "alone: its host is not one of the account before '='"),
        (
            "archive1=https://archive1@evil.example/archive1",
            "entry 1 needs the account's blob endpoint, like https",
        ),
        ("archive1=AccountKey=a2V5;BlobEndpoint=https://b", "entry 1 has an endpoint that is no"),
        ("archive1=https://127.0.0.1/archive1/x", "entry 1 needs the account's blob endpoint, li"),
        ("archive1=https://[archive1", "entry 1 needs the account's blob endpoint, like https"),
    ],
)
def test_what_can_not_be_meant_is_refused_at_the_start(text: str, words: str) -> None:
    environ = {"AzureWebJobsStorage": "x", "ARCHIVE2": CONNECTION, NAME: text}

    with pytest.raises(InvalidSettings) as raised:
        from_environ(environ, frozenset())

    (fault,) = raised.value.faults
    assert fault.target == NAME
    assert fault.message.startswith(f"{NAME}: ")
    assert words in fault.message
    assert "a2V5" not in fault.message
    assert "sig" not in fault.message


@pytest.mark.parametrize(
    ("own", "others", "words"),
    [
        (
            {"": "UseDevelopmentStorage=true"},
            {"archive1": {"blobServiceUri": ENDPOINT}},
            "needs an identity, which AzureWebJobsStorage does not have",
        ),
        (IDENTITY, {"acc": {"": "x"}}, "'acc' is the app's own account: leave it out"),
        (IDENTITY, {"archive1": {"": CONNECTION}}, "of 'archive1' is another account's"),
        (IDENTITY, {"archive1": {"": "hello"}}, "of 'archive1' is another account's"),
        (IDENTITY, {"archive1": {"": "AccountName=archive1"}}, "has no AccountKey"),
    ],
)
def test_a_connection_that_does_not_fit_is_refused(
    own: Mapping[str, str], others: Mapping[str, Mapping[str, str]], words: str
) -> None:
    with pytest.raises(InvalidSettings) as raised:
        connections_beside(own, others)

    assert words in raised.value.message
    assert raised.value.faults[0].target == NAME


def test_it_is_refused_when_the_app_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AzureWebJobsStorage", "UseDevelopmentStorage=true")
    monkeypatch.setenv(NAME, "devstoreaccount1=ARCHIVE2")
    monkeypatch.setenv("ARCHIVE2", CONNECTION)

    with pytest.raises(InvalidSettings, match="the app's own account"):
        FunctionApp().settings  # noqa: B018 - it raises


def test_an_endpoint_is_reached_with_the_identity_of_the_app() -> None:
    for own in (
        IDENTITY,
        {
            "blobserviceuri": "https://acc.blob.core.windows.net",
            "queueServiceUri": "https://acc.queue.core.windows.net",
            "tableserviceuri": "https://acc.table.core.windows.net",
            "credential": "managedidentity",
            "clientId": "id",
        },
    ):
        others = {"archive1": {"blobServiceUri": ENDPOINT}, "archive2": {"": CONNECTION}}

        found = connections_beside(own, others)

        assert found["archive1"] == {
            "blobServiceUri": ENDPOINT,
            "credential": "managedidentity",
            "clientId": "id",
        }
        for name, connection in found.items():
            account = StorageClients(connection, services=[Service.BLOB])
            assert account.foreign_container("dead").url == (
                f"https://{name}.blob.core.windows.net/dead"
            )


def test_a_secret_that_is_not_resolved_leaves_the_app_running() -> None:
    """Its account is known and away: dead letters for it wait."""
    environ = {"AzureWebJobsStorage": "x", "PUSHGRID_X": REFERENCE, NAME: "archive2=PUSHGRID_X"}

    settings = from_environ(environ, frozenset())

    assert settings.deadletter_accounts == {"archive2": {}}
    assert connections_beside(IDENTITY, settings.deadletter_accounts) == {}
    assert unresolved(environ) == ("PUSHGRID_X",)
    assert unknown(environ) == {}


def test_no_secret_is_shown() -> None:
    environ = {"AzureWebJobsStorage": "x", "ARCHIVE2": CONNECTION, NAME: "archive2=ARCHIVE2"}

    assert "a2V5" not in repr(from_environ(environ, frozenset()))
