"""How a put on the event loop is authorized: by the SDK's own policies, which may block."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any, NamedTuple, TypeVar

import pytest
from azure.core.credentials import AccessToken
from azure.core.exceptions import ClientAuthenticationError
from azure.storage.queue._shared.policies import StorageBearerTokenCredentialPolicy

from pushgrid.testing.memory import Seconds
from shared.adapters.azure_storage.sender import MessagePut
from shared.http import Answered, Exchange, OutboundRequest
from tests.contract.scripted_storage import STORED
from tests.without_loop import finished

T = TypeVar("T")
URL = "https://acc.queue.core.windows.net/retries"
DEMAND = {
    "www-authenticate": "Bearer authorization_uri=https://login.example/tenant-2/oauth2/authorize"
    " resource_id=https://storage.azure.com"
}


class Client(NamedTuple):
    """What a put needs of the SDK's client."""

    url: str = URL
    api_version: str = "2025-05-05"


class Puts:
    """Puts to a storage that answers by a script, with an identity whose tokens are counted."""

    def __init__(self, *answers: Answered, url: str = URL) -> None:
        self.tokens: list[str] = []  # the tenants for which one was fetched
        self.sent: list[str] = []  # the authorization of each request
        self.hops = 0
        self.clock = Seconds()
        self.dates: list[str | None] = []  # of the answers
        self._answers = list(answers)
        self._client = Client(url)
        self._policy: Any = StorageBearerTokenCredentialPolicy(self, "https://storage.azure.com")
        account: Any = self
        self._put = MessagePut(account, self._send, self._off_loop)

    def answered(self, date: str | None, _: float) -> None:
        self.dates.append(date)

    def queue(self, _: str) -> Client:
        return self._client

    def authorization_of_queues(self) -> Any:
        return self._policy

    def get_token(self, *_: str, **options: Any) -> AccessToken:
        self.tokens.append(str(options.get("tenant_id", "own")))
        return AccessToken(f"token-{len(self.tokens)}", int(time.time()) + 3600)

    async def _off_loop(self, call: Callable[[], T]) -> T:
        self.hops += 1
        return call()

    async def _send(self, request: OutboundRequest, _: timedelta) -> Exchange:
        self.sent.append(request.headers["Authorization"])
        return self._answers.pop(0)

    def put(self) -> object:
        return finished(self._put.put("retries", "text", hidden=0, expires=-1))


def answered(status: int, headers: dict[str, str] | None = None) -> Answered:
    return Answered(status, headers or {}, STORED if status == 201 else b"", 0.01)


def test_a_token_is_fetched_off_the_loop_and_kept() -> None:
    puts = Puts(answered(201), answered(201))
    puts.put()
    hops = puts.hops
    puts.put()

    assert (puts.sent, puts.tokens) == (["Bearer token-1"] * 2, ["own"])
    assert (hops, puts.hops) == (2, 2)  # for the client, and for the token


def test_a_token_that_storage_refuses_is_fetched_anew_as_it_demands() -> None:
    puts = Puts(answered(401, DEMAND), answered(201))

    assert puts.put() == ("1", "r")

    assert puts.sent == ["Bearer token-1", "Bearer token-2"]
    assert puts.tokens == ["own", "tenant-2"]


@pytest.mark.parametrize("demand", [{}, DEMAND], ids=["nothing is demanded", "again"])
def test_a_refusal_ends_the_put(demand: dict[str, str]) -> None:
    puts = Puts(answered(401, demand), answered(401, demand))

    with pytest.raises(ClientAuthenticationError):
        puts.put()

    assert len(puts.sent) == 1 + bool(demand)
