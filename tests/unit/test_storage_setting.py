"""Which variables are the connection: what the host would take."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from shared.storage_setting import storage_setting


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
def test_what_is_the_connection(environ: Mapping[str, str], setting: Mapping[str, str]) -> None:
    assert storage_setting("AzureWebJobsStorage", environ) == setting


@pytest.mark.parametrize(
    ("environ", "text"),
    [
        ({"Storage": "bare"}, "bare"),
        ({"Storage": "bare", "AzureWebJobsStorage": "prefixed"}, "prefixed"),
        ({"Storage": "bare", "ConnectionStrings:Storage": "listed"}, "listed"),
    ],
)
def test_the_name_of_a_connection_may_lack_its_prefix(
    environ: Mapping[str, str], text: str
) -> None:
    assert storage_setting("Storage", environ) == {"": text}
