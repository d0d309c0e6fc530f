"""A publisher: its requests, and what it reads of the answers."""

from __future__ import annotations

import json
from typing import Any

from shared.http import HttpAnswer, HttpRequest
from tests.builders import KEY
from tests.functional.deployment import Deployment

URL = "https://pushgrid.example/topics/orders/api/events?api-version=2018-01-01"


def event(number: int = 0, **overrides: Any) -> dict[str, Any]:
    return {
        "id": f"e-{number}",
        "subject": f"/orders/{number}",
        "eventType": "Shop.OrderPlaced",
        "eventTime": "2026-02-09T12:00:00Z",
        "data": {"n": number},
    } | overrides


def publish_request(
    *events: dict[str, Any],
    method: str = "POST",
    topic: str = "orders",
    body: bytes | None = None,
    **headers: str,
) -> HttpRequest:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return HttpRequest(
        method=method,
        url=URL,
        headers={"aeg-sas-key": KEY, "content-type": "application/json"} | named,
        params={"topic": topic},
        query={"api-version": "2018-01-01"},
        body=json.dumps(events).encode() if body is None else body,
    )


def publish(app: Deployment, *events: dict[str, Any], **given: Any) -> HttpAnswer:
    return app.answer(publish_request(*events, **given))


def code(answer: HttpAnswer) -> str:
    return str(json.loads(answer.body)["error"]["details"][0]["code"])


def nothing_stored(app: Deployment) -> bool:
    return app.all_stored() == {} and app.payloads.blobs == {}
