"""What Microsoft's host leaves open or does its own way changes no answer."""

from __future__ import annotations

import itertools
import json
import random
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import azure.functions as func
import pytest

from shared.adapters.functions_http import to_request, to_response
from shared.http import HttpAnswer, HttpRequest
from shared.settings import from_environ
from tests.builders import KEY
from tests.functional.deployment import Deployment
from tests.functional.manage.arm_api import BODIES, CRM, HOST, ORDERS, TOPICS, VERSION, ArmApi
from tests.functional.manage.arm_api import KEY as ADMIN_KEY
from tests.functional.publish_requests import event

EVENTS = f"{HOST}/topics/orders/api/events"
SPELLINGS: tuple[Callable[[str], str], ...] = (str, str.lower, str.swapcase)
JSON = {"content-type": "application/json"}
SENDER = {"aeg-sas-key": KEY} | JSON
ADMIN = {"authorization": f"Bearer {ADMIN_KEY}", "user-agent": "a"}
BODY = json.dumps([event()]).encode()
#: Status, method, URL, headers and body.
REQUESTS: dict[str, tuple[int, str, str, dict[str, str], bytes]] = {
    "two credentials": (200, "POST", EVENTS, SENDER | {"authorization": "x y"}, BODY),
    "a wrong one": (401, "POST", EVENTS, {"aeg-sas-key": "no", "aeg-sas-token": "t"} | JSON, BODY),
    "a key in the query": (200, "POST", f"{EVENTS}?Aeg-Sas-Key={KEY}&a=1", JSON, BODY),
    "a wrong version": (400, "POST", f"{EVENTS}?API-Version=1&a=", SENDER, BODY),
    "a list": (200, "GET", f"{HOST}{TOPICS}?$TOP=1&API-version=2025-02-15&A=1&a=2", ADMIN, b""),
    "no version": (400, "GET", f"{HOST}{ORDERS}?a=1&b=", ADMIN, b""),
    "a resource": (200, "GET", f"{HOST}{CRM}?{VERSION}&Api-Version=2025-02-15", ADMIN, b""),
    "no key": (401, "PUT", f"{HOST}{ORDERS}?{VERSION}", {"user-agent": "a"} | JSON, b"{}"),
}


@pytest.fixture
def answer(app: Deployment) -> Callable[[HttpRequest], HttpAnswer]:
    """Answer as a deployment does, with one id for each request."""
    api = ArmApi()
    for path in (ORDERS, f"{TOPICS}/other"):
        api.json("PUT", path, BODIES[ORDERS], status=201)
    api.json("PUT", CRM, BODIES[CRM], status=201)
    api.reconfigure(new_id=lambda: "id")
    app.publish = replace(app.publish, new_id=lambda: "id")

    def answer(request: HttpRequest) -> HttpAnswer:
        return app.answer(request) if request.url.startswith(EVENTS) else api.manage.run(request)

    return answer


def handed_over(
    chance: random.Random, method: str, url: str, headers: Mapping[str, str], body: bytes
) -> HttpRequest:
    """Hand a request over in a random order, with merged parameters."""
    merged: dict[str, str] = {}
    for name, value in parse_qsl(urlsplit(url).query):
        known = next((each for each in merged if each.lower() == name.lower()), name)
        merged[known] = ",".join(filter(None, (merged.get(known), value)))

    def shuffled(values: Mapping[str, str]) -> dict[str, str]:
        return dict(chance.sample([*values.items()], len(values)))

    return to_request(
        func.HttpRequest(
            method,
            url,
            headers=shuffled(headers),
            params=shuffled(merged),
            route_params=shuffled({"topic": "orders", "path": "x"}),
            body=body,
        )
    )


@pytest.mark.parametrize("request_", REQUESTS.values(), ids=REQUESTS)
def test_neither_order_nor_case_changes_an_answer(
    answer: Callable[[HttpRequest], HttpAnswer],
    request_: tuple[int, str, str, dict[str, str], bytes],
) -> None:
    status, method, url, headers, body = request_
    path, *query = re.split(r"[?&]", url)
    chance = random.Random(7)
    answers = set()
    for spell, _ in itertools.product(SPELLINGS, range(10)):
        names = [(spell(name), value) for name, _, value in (each.partition("=") for each in query)]
        asked = f"{path}?{'&'.join(f'{name}={value}' for name, value in names)}"
        found = to_response(answer(handed_over(chance, method, asked, headers, body)))
        text = re.sub(rb'\?[^"]*', b"", found.get_body())  # without the query, which links repeat
        answers.add((found.status_code, tuple(sorted(found.headers.items())), text))

    assert [each[0] for each in answers] == [status], answers


def test_no_url_that_is_handed_out_has_a_doubled_slash() -> None:
    """Before the rest of a path the host answers 404 to it."""
    settings = from_environ(
        {"AzureWebJobsStorage": "UseDevelopmentStorage=true", "PUSHGRID_PUBLIC_URL": f"{HOST}//"},
        frozenset({"latest"}),
    )
    api = ArmApi()
    api.reconfigure(public_url=settings.public_url)
    said: list[Any] = [api.json("PUT", path, body, status=201) for path, body in BODIES.items()]
    api.json("PUT", f"{TOPICS}/other", BODIES[ORDERS], status=201)
    said.append(api.json("GET", f"{TOPICS}?$top=1"))
    said += [each.request.body.decode() for each in api.pusher.sent]

    urls = re.findall(rf'{HOST}[^"\\]*', json.dumps(said))

    areas = {urlsplit(each).path.split("/")[1] for each in urls}
    assert areas == {"subscriptions", "topics", "validate"}
    assert [each for each in urls if "//" in urlsplit(each).path] == []
