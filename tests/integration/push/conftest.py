"""
Every test on both event loops; one pusher a test; one authority.

Pushers are closed at the end: a socket left open fails the test.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator

import pytest

from shared.adapters.http.tls import TlsMaterial, client_tls
from tests.integration.push.authority import Authority
from tests.integration.push.names import always_at
from tests.integration.push.on_loop import LOOPS, HttpPusher, running_loop
from tests.integration.push.scripted import LOCAL


@pytest.fixture(params=LOOPS, autouse=True)
def loop(request: pytest.FixtureRequest) -> Iterator[str]:
    with running_loop(request.param):
        yield request.param


@pytest.fixture
def pusher() -> Iterator[HttpPusher]:
    with HttpPusher(LOCAL) as made:
        yield made


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def trust(authority: Authority) -> ssl.SSLContext:
    return client_tls(TlsMaterial(str(authority.bundle)))


@pytest.fixture
def trusting(trust: ssl.SSLContext) -> Iterator[HttpPusher]:
    """A pusher that trusts the authority, and for which every name is this machine."""
    with HttpPusher(LOCAL, tls=trust, lookup=always_at("127.0.0.1")) as made:
        yield made
