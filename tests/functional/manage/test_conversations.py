"""Conversations with Event Grid's management API, as it was recorded to hold them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from shared.engine.manage.az_login import AzLogin
from shared.engine.operations.operator_authorization import Operators
from shared.http import HttpAnswer, HttpRequest
from tests.functional.manage.arm_api import GROUP, HOST, KEY, ArmApi
from tests.functional.manage.conversations import FILES, Answer, play, read

NAMES = {
    "rg": GROUP,
    "name": "orders",
    "host": HOST,
    "hostname": HOST.removeprefix("https://"),
    "endpoint": "https://crm.example/hook",
    "account": "acct",
    "key": KEY,
}


def log_in(method: str, target: str, body: bytes) -> HttpAnswer:
    login = AzLogin(is_on=True, operators=Operators(admin_key=KEY), public_url=None)
    return login.run(HttpRequest(method=method, url=f"{HOST}{target}", headers={}, body=body))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_answers_are_as_recorded(api: ArmApi, path: Path):
    converse(api, path)


def converse(api: ArmApi, path: Path) -> None:
    """Hold the conversation of a file; the answers must be as recorded."""

    def send(method: str, target: str, body: bytes) -> Answer:
        is_login = target.startswith(("/adfs/", "/metadata/"))
        answer = (
            log_in(method, target, body) if is_login else api.call(method, target, body, version="")
        )
        headers = {name.lower(): value for name, value in answer.headers.items()}
        return Answer(answer.status, headers, json.loads(answer.body) if answer.body else None)

    play(read(path), NAMES, send)
