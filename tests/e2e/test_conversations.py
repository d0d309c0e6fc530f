"""The conversations of `tests/data/management` over HTTP, with an endpoint that consents."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import requests

from devhost.azurite import ACCOUNT
from devhost.process import RunningHost
from testbed.arm import ADMIN_KEY
from testbed.subscriber import Subscriber
from tests.functional.manage.arm_api import GROUP
from tests.functional.manage.conversations import FILES, Answer, play, read


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_answers_are_as_recorded(
    host: RunningHost, subscriber: Callable[..., Subscriber], name: str, path: Path
):
    names = {"rg": GROUP, "name": name, "endpoint": subscriber().url}
    names |= {"account": ACCOUNT, "key": ADMIN_KEY}
    names |= {"host": host.url, "hostname": host.url.removeprefix("http://")}
    headers = {"Authorization": f"Bearer {ADMIN_KEY}"}

    def send(method: str, target: str, body: bytes) -> Answer:
        response = requests.request(
            method, f"{host.url}{target}", data=body, headers=headers, timeout=60
        )
        document = response.json() if response.content else None
        shown = {header.lower(): value for header, value in response.headers.items()}
        return Answer(response.status_code, shown, document)

    play(read(path), names, send)
