"""
Both HTTP surfaces on ports in memory, behind the adapter that the functions use.

Every request goes through the checks that hold for all of them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import azure.functions as func
from azure.functions.http import HttpResponseConverter

from pushgrid.testing.composition import InMemoryApp
from pushgrid.testing.memory import ScriptedPusher
from shared.adapters.functions_http import to_request, to_response
from shared.engine.ports import Queue
from shared.http import HttpAnswer, HttpRequest
from shared.subscriptions.subscription import SubscriptionKey
from tests.functional.manage.arm_api import (
    CRM,
    HOST,
    KEY,
    ORDERS,
    SHOP,
    SHOP_CRM,
    SHOP_ORDERS,
    ArmApi,
    hook,
    push,
)
from tests.functional.manage.arm_api import VERSION as QUERY

OPERATOR = {"authorization": f"Bearer {KEY}"}
ARM_ERROR = {"code", "message", "target", "details", "additionalInfo"}
DATA_PLANE_ERROR = {"code", "message", "details"}


class Surfaces:
    """The topic ``orders`` with ``crm``, and the same of the namespace ``shop``."""

    def __init__(self, **orders: Any) -> None:
        self.api = ArmApi()
        self.pusher = ScriptedPusher(self.api.clock)
        self.app = InMemoryApp(
            self.pusher, self.api.clock, self.api.storage, cache_for=timedelta(0)
        )
        self.directory = self.app.directory
        body = {"location": "westeurope", "properties": orders}
        self.api.json("PUT", ORDERS, body, status=201)
        self.api.json("PUT", SHOP, {"location": "westeurope"}, status=201)
        self.api.json("PUT", SHOP_ORDERS, {"properties": {}}, status=201)
        self.api.json("PUT", CRM, hook(), status=201)
        self.api.json("PUT", SHOP_CRM, push(), status=201)
        self.key: str = self.api.json("POST", f"{ORDERS}/listKeys")["key1"]
        self.namespace_key: str = self.api.json("POST", f"{SHOP}/listKeys")["key1"]

    def manage(
        self, method: str, target: str, body: bytes, headers: Mapping[str, str] = OPERATOR
    ) -> func.HttpResponse:
        """
        Send a management request: it causes no internal error, what is refused stores nothing,
        and what is stored can be read.
        """
        before = dict(self.api.resources._rows)
        response = _exchange(self.api.manage.run, method, f"{HOST}{target}", body, headers, {})
        after = self.api.resources._rows

        if response.status_code >= 400:
            error = _json(response)["error"]
            assert set(error) == ARM_ERROR
            assert error["code"]
            assert error["message"]
        is_read = method.upper() not in {"PUT", "PATCH", "POST", "DELETE"}
        if response.status_code >= 400 or is_read:
            assert after == before
        elif method.upper() in {"PUT", "PATCH"}:
            self._check_written(target, _json(response))
        return response

    def publish(
        self,
        method: str,
        target: str,
        body: bytes,
        headers: Mapping[str, str],
        params: Mapping[str, str],
    ) -> func.HttpResponse:
        """
        Send a request to a data plane: it causes no internal error, what is refused stores
        nothing, and what is stored can be delivered.
        """
        response = _exchange(self._answer, method, f"{HOST}{target}", body, headers, params)

        if response.status_code >= 400:
            error = _json(response)["error"]
            assert set(error) == DATA_PLANE_ERROR
            assert all(set(each) == {"code", "message"} for each in error["details"])
            assert error["details"]
        if response.status_code != 200:
            assert not any(self.app.queues.stored.values())
            assert self.app.payloads.blobs == {}
        self.deliver()
        return response

    def _answer(self, request: HttpRequest) -> HttpAnswer:
        return self.app.loop.run(self.app.publish.run(request))

    def deliver(self) -> list[Any]:
        """Deliver what is stored, and return what the endpoints read."""
        self.pusher.sent.clear()
        for queue in (Queue.DELIVERIES, Queue.RETRIES):
            for text in self.app.queues.texts(queue):
                self.app.work(text, queue)
            self.app.queues.stored[queue].clear()
        self.app.payloads.blobs.clear()
        return [_read(each.request.body) for each in self.pusher.sent]

    def _check_written(self, target: str, written: Any) -> None:
        """Check that a document can be read where it is, in lists, and by the data plane."""
        path = target.partition("?")[0]
        shown = _exchange(self.api.manage.run, "GET", f"{HOST}{path}?{QUERY}", b"", OPERATOR, {})
        assert shown.status_code == 200
        settled = _json(shown)
        for each in (settled, written):
            each["properties"].pop("provisioningState", None)
        assert settled == written
        for resource in list(self.api.resources._rows.values()):
            document = resource.document
            if "topicName" in document:
                key = SubscriptionKey(document["topicName"], document["name"])
                assert self.directory.read_uncached(key)


def _exchange(
    run: Callable[[HttpRequest], HttpAnswer],
    method: str,
    url: str,
    body: bytes,
    headers: Mapping[str, str],
    params: Mapping[str, str],
) -> func.HttpResponse:
    """Send a request as the worker hands it over, and check what it gets back."""
    request = func.HttpRequest(method, url, headers=headers, route_params=params, body=body)
    response = to_response(run(to_request(request)))

    assert HttpResponseConverter.encode(response, expected_type=None)
    assert 200 <= response.status_code < 500
    assert response.headers["x-ms-request-id"]
    assert b"Traceback" not in response.get_body()
    assert all("\n" not in value and "\r" not in value for value in response.headers.values())
    return response


def _json(response: func.HttpResponse) -> Any:
    assert response.headers["content-type"] == "application/json; charset=utf-8"
    return _read(response.get_body())


def _read(body: bytes) -> Any:
    """Read JSON as the strictest client does: no NaN, and no text that UTF-8 can't carry."""
    document = json.loads(body, parse_constant=_refused)
    json.dumps(document, ensure_ascii=False).encode()
    return document


def _refused(name: str) -> None:
    raise AssertionError(f"{name} is no JSON")
