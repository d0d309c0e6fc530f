"""Conversations with Event Grid's management API, as it was recorded to hold them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.functional.manage.arm_api import GROUP, HOST, ArmApi
from tests.functional.manage.conversations import FILES, Answer, play, read

NAMES = {
    "rg": GROUP,
    "name": "orders",
    "host": HOST,
    "hostname": HOST.removeprefix("https://"),
    "endpoint": "https://crm.example/hook",
}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_answers_are_as_recorded(api: ArmApi, path: Path):
    def send(method: str, target: str, body: bytes) -> Answer:
        answer = api.call(method, target, body, version="")
        headers = {name.lower(): value for name, value in answer.headers.items()}
        return Answer(answer.status, headers, json.loads(answer.body) if answer.body else None)

    play(read(path), NAMES, send)
