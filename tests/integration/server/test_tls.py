"""Certificates that can't serve are refused with what is wrong, and a new one is served at once."""

from __future__ import annotations

import asyncio
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import trustme

from server.failure import CannotStart
from server.http.connections import ConnectionLimits
from server.http.front import HttpFront
from server.options import LOOPBACK, bind
from server.tls import ServerTls
from tests.integration.push.authority import Authority
from tests.integration.server.test_connections import echo, to_the_end


def write(folder: Path, authority: trustme.CA, name: str, **times: Any) -> tuple[Path, Path]:
    """Write a certificate for 127.0.0.1 with the common *name*, and its key."""
    issued = authority.issue_cert("127.0.0.1", common_name=name, **times)
    certificate, key = folder / "cert.pem", folder / "key.pem"
    issued.private_key_pem.write_to_path(key)
    certificate.write_bytes(b"".join(each.bytes() for each in issued.cert_chain_pems))
    return certificate, key


def test_a_certificate_is_loaded_with_a_key_beside_it_or_elsewhere(tmp_path):
    certificate, key = write(tmp_path, trustme.CA(), "a")
    both = tmp_path / "both.pem"
    both.write_bytes(certificate.read_bytes() + key.read_bytes())

    ServerTls(certificate, key)
    ServerTls(both, None)


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda c, _: c.unlink(), r"cert.pem can't be read \(No such file"),
        (lambda _, k: k.unlink(), r"key.pem can't be read \(No such file"),
        (lambda c, _: c.write_text("text"), "not PEM|can't be loaded"),
        (lambda _, k: k.write_text("text"), "not PEM|can't be loaded"),
        (lambda _, k: trustme.CA().private_key_pem.write_to_path(k), "not that of the certificate"),
        (lambda _, k: k.write_bytes(encrypted(k.parent)), "has a password"),
    ],
    ids=["no certificate", "no key", "certificate", "key", "of another", "encrypted"],
)
def test_what_can_not_serve_is_refused(tmp_path, spoil, why):
    certificate, key = write(tmp_path, trustme.CA(), "a")
    spoil(certificate, key)

    with pytest.raises(CannotStart, match=why) as refused:
        ServerTls(certificate, key)
    assert "--tls-key" in str(refused.value)


@pytest.mark.parametrize(
    ("days", "why"),
    [
        (-1, "is not valid before 2026-03-01 00:00 UTC: correct the clock"),
        (1, None),
        (15, None),
        (17, "expires on 2026-03-31 00:00 UTC: renew it"),
        (31, "has expired on 2026-03-31 00:00 UTC: renew it"),
    ],
)
def test_a_certificate_that_clients_refuse_or_soon_will_is_named(tmp_path, days, why):
    begin = datetime(2026, 3, 1, tzinfo=UTC)
    times = {"not_before": begin, "not_after": begin + timedelta(days=30)}
    tls = ServerTls(*write(tmp_path, trustme.CA(), "a", **times))

    found = tls.doubt(begin + timedelta(days=days))

    assert (why is None) == (found is None)
    assert (why or "") in (found or "")


def encrypted(folder: Path) -> bytes:
    return Authority(folder).issue("127.0.0.1", password=b"secret").read_bytes()


def test_new_connections_get_the_certificate_that_was_loaded_last(tmp_path):
    authority = trustme.CA()
    certificate, key = write(tmp_path, authority, "first")
    tls = ServerTls(certificate, key)
    client = ssl.create_default_context()
    authority.configure_trust(client)

    async def name(address: tuple[str, int]) -> str:
        reader, writer = await asyncio.open_connection(*address, ssl=client)
        writer.write(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        assert b"200 OK" in await to_the_end(reader)
        found: Any = writer.get_extra_info("peercert")
        writer.close()
        return str(dict(pair for each in found["subject"] for pair in each)["commonName"])

    async def test() -> list[str]:
        front = HttpFront(echo, ConnectionLimits(10), tls.context)
        taken = bind(LOOPBACK, 0)
        address = taken.getsockname()
        await front.start(taken)
        names = [await name(address)]
        write(tmp_path, authority, "second")
        tls.reload()
        names.append(await name(address))
        of_second = key.read_bytes()
        write(tmp_path, authority, "third")
        key.write_bytes(of_second)  # half of the pair is replaced
        with pytest.raises(CannotStart):
            tls.reload()
        names.append(await name(address))
        await front.stop(10)
        return names

    assert asyncio.run(test()) == ["first", "second", "second"]
