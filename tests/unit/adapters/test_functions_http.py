"""Requests and answers between Azure Functions and us."""

from __future__ import annotations

from collections.abc import Mapping

import azure.functions as func
import pytest
from azure.functions.http import HttpResponseConverter

from shared.adapters.functions_http import to_request, to_response
from shared.http import HttpAnswer, HttpRequest

URL = "https://host/topics/orders/api/events?api-version=2018-01-01&empty=&a=1&a=%C3%BC+x"


def test_a_request_is_read() -> None:
    request = func.HttpRequest(
        "post",
        URL,
        headers={"Aeg-Sas-Key": "k", "CONTENT-TYPE": "application/json"},
        params={"api-version": "2018-01-01", "a": "1,ü x"},
        route_params={"topic": "orders"},
        body=b"[]",
    )

    assert to_request(request) == HttpRequest(
        method="POST",
        url=URL,
        headers={"aeg-sas-key": "k", "content-type": "application/json"},
        params={"topic": "orders"},
        query={"api-version": "2018-01-01", "empty": "", "a": "ü x"},
        body=b"[]",
    )


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Content-Type": "application/json; charset=utf-8"},
        {"Content-Type": "text/plain", "Retry-After": "5"},
        {"allow": "POST, OPTIONS", "WebHook-Allowed-Rate": "*"},
    ],
)
def test_an_answer_is_written_with_one_more_header(headers: Mapping[str, str]) -> None:
    response = to_response(HttpAnswer(status=202, headers=headers, body=b"\xff\x00"))

    sent = HttpResponseConverter.encode(response, expected_type=None).value
    names = {name: datum.value for name, datum in sent["headers"].items() if datum.value}
    assert names == {**headers, "X-Content-Type-Options": "nosniff"}
    assert sent["status_code"].value == "202"
    assert sent["body"].value == response.get_body() == b"\xff\x00"
