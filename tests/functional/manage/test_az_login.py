"""Azure CLI signs in with the admin key, where that is switched on, and finds what it asks for."""

from __future__ import annotations

import json
from typing import Any

import pytest

from shared.engine.manage.az_login import AzLogin
from shared.engine.operations.operator_authorization import Operators
from shared.http import HttpAnswer, HttpRequest
from tests.functional.manage.arm_api import GROUP, HOST, KEY, ArmApi

TOKEN = "/adfs/oauth2/token"
GRANT = "grant_type=client_credentials&client_id=pushgrid&client_secret="


def ask(method: str, path: str, body: str = "", **members: Any) -> HttpAnswer:
    keys = Operators(admin_key=KEY)
    given: dict[str, Any] = {"is_on": True, "operators": keys, "public_url": None}
    login = AzLogin(**(given | members))
    return login.run(
        HttpRequest(method=method, url=f"{HOST}{path}", headers={}, body=body.encode())
    )


def read(answer: HttpAnswer) -> Any:
    return json.loads(answer.body)


@pytest.mark.parametrize("secret", ["", "wrong", KEY[:-1], KEY + "x", "%FF"])
def test_a_wrong_secret_gets_an_oauth_error(secret: str) -> None:
    answer = ask("POST", TOKEN, GRANT + secret)

    assert (answer.status, read(answer)["error"]) == (401, "invalid_client")
    assert KEY not in answer.body.decode()


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/metadata/endpoints"),
        ("GET", "/adfs/.well-known/openid-configuration"),
        ("POST", TOKEN),
    ],
)
def test_nothing_is_there_unless_it_is_switched_on(method: str, path: str) -> None:
    answer = ask(method, path, GRANT + KEY, is_on=False)

    assert answer.status == ask("POST", f"{path}/x", GRANT + KEY).status == 404
    assert "PUSHGRID_AZ_LOGIN" in read(answer)["error"]["message"]
    found = ask(method, path, GRANT + KEY)
    assert (found.status, found.headers["Cache-Control"]) == (200, "no-store")


@pytest.mark.parametrize(
    "body",
    [
        f"grant_type=password&client_secret={KEY}",
        pytest.param("x" * 8192 + "&" + GRANT + KEY, id="longer than a form"),
    ],
)
def test_only_client_credentials_are_granted(body: str) -> None:
    answer = ask("POST", TOKEN, body)

    assert (answer.status, read(answer)["error"]) == (400, "unsupported_grant_type")


def test_the_public_url_is_the_clouds() -> None:
    cloud = read(ask("GET", "/metadata/endpoints", public_url="https://events.example"))

    assert cloud["authentication"]["loginEndpoint"] == "https://events.example/adfs"


def test_a_path_without_a_parent_may_have_an_empty_segment_there(api: ArmApi) -> None:
    """`az resource` writes one where a resource could have a parent."""
    made = api.json("PUT", f"{GROUP}//namespaces/shop", {"location": "local"}, status=201)

    assert made == api.json("GET", f"{GROUP}/namespaces/shop")
    assert api.call("DELETE", f"{GROUP}/namespaces//shop").status == 404


def test_the_storage_account_is_found_in_any_case(api: ArmApi) -> None:
    accounts = f"{GROUP.rpartition('/')[0]}/Microsoft.Storage/storageAccounts"
    (own,) = api.json("GET", accounts)["value"]

    assert api.json("GET", f"{accounts}/{own['name'].upper()}")["name"] == own["name"]
    assert "There is no storage account" in str(api.json("GET", f"{accounts}/other", status=404))
