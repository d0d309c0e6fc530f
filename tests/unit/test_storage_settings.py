"""Which variables are the connection: the app and the local host take what the real host would."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from devhost.storage.account import connection_setting
from shared.settings.storage_settings import storage_setting

Read = Callable[[str, Mapping[str, str]], Mapping[str, str]]
both = pytest.mark.parametrize("read", [storage_setting, connection_setting])


@both
@pytest.mark.parametrize(
    ("environ", "setting"),
    [
        ({}, {}),
        ({"AzureWebJobsStorage": " "}, {}),
        ({"AzureWebJobsStorage": " text "}, {"": "text"}),
        ({"AZUREWEBJOBSSTORAGE": "text"}, {"": "text"}),
        ({"AzureWebJobsStorage__accountName": "acc"}, {"accountname": "acc"}),
        ({"azurewebjobsstorage:ACCOUNTNAME": "acc"}, {"accountname": "acc"}),
        ({"AzureWebJobsStorage__accountName": ""}, {}),
        (
            {"AzureWebJobsStorage": "text", "AzureWebJobsStorage__accountName": "acc"},
            {"": "text"},
        ),
        (
            {"AzureWebJobsStorage": "", "AzureWebJobsStorage__accountName": "a"},
            {"accountname": "a"},
        ),
        ({"AzureWebJobsStorage_accountName": "acc", "AzureWebJobsStorage2": "text"}, {}),
        (
            {"AzureWebJobsStorage": "late", "ConnectionStrings__AzureWebJobsStorage": "early"},
            {"": "early"},
        ),
        (
            {"AzureWebJobsStorage": "late", "AzureWebJobsAzureWebJobsStorage__clientId": "early"},
            {"clientid": "early"},
        ),
    ],
)
def test_what_is_the_connection(
    environ: Mapping[str, str], setting: Mapping[str, str], read: Read
) -> None:
    assert read("AzureWebJobsStorage", environ) == setting


@both
@pytest.mark.parametrize(
    ("environ", "text"),
    [
        ({"Storage": "bare"}, "bare"),
        ({"Storage": "bare", "AzureWebJobsStorage": "prefixed"}, "prefixed"),
        ({"Storage": "bare", "ConnectionStrings:Storage": "listed"}, "listed"),
        (
            {"AzureWebJobsStorage": "late", "ConnectionStrings:AzureWebJobsStorage": "early"},
            "early",
        ),
    ],
)
def test_the_name_of_a_connection_may_lack_its_prefix(
    environ: Mapping[str, str], text: str, read: Read
) -> None:
    assert read("Storage", environ) == {"": text}
