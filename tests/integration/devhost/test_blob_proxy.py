"""What stands in front of the blob service: real Azurite, real clients, and what it tells."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import os
import random
import re
import socket
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from azure.core.exceptions import HttpResponseError
from azure.storage.blob import (
    BlobClient,
    BlobServiceClient,
    ContainerClient,
    generate_account_sas,
    generate_blob_sas,
)

from devhost.azurite import ACCOUNT, KEY, Azurite
from devhost.blobs import blob_proxy
from devhost.blobs.blob_changes import changes_in
from devhost.blobs.blob_proxy import BlobProxy
from devhost.errors import HostError
from devhost.http.server import HttpServer, reserved_port
from devhost.settings import STORAGE
from devhost.storage.account import find_account

MEBIBYTE = 1024 * 1024
SIZE = 100 * MEBIBYTE


class Told:
    """What the app was told, in order; *fault* is what it raises instead."""

    def __init__(self) -> None:
        self.changes: list[Mapping[str, Any]] = []
        self.fault: Exception | None = None
        self.hold = threading.Event()
        self.hold.set()

    async def __call__(self, blob: Mapping[str, Any]) -> None:
        if self.fault:
            raise self.fault
        self.changes.append(blob)
        await asyncio.to_thread(self.hold.wait, 60)

    @property
    def apis(self) -> list[tuple[str, str]]:
        return [(each["api"], each["path"]) for each in self.changes]


class Proxy(NamedTuple):
    port: int
    told: Told

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/{ACCOUNT}"


@pytest.fixture
def proxy(azurite: Azurite) -> Iterator[Proxy]:
    """Run it on an event loop of its own."""
    told, loop, is_up = Told(), asyncio.new_event_loop(), threading.Event()
    account = find_account(STORAGE, {STORAGE: azurite.connection_string})
    with reserved_port(0) as taken:
        servers: list[HttpServer] = []

        async def serve() -> None:
            server = HttpServer(BlobProxy(account, told), taken, drain_seconds=10)
            servers.append(server)
            serving = asyncio.create_task(server.serve())
            await server.is_up.wait()
            is_up.set()
            await serving

        thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
        thread.start()
        assert is_up.wait(60)
        yield Proxy(taken.getsockname()[1], told)
        loop.call_soon_threadsafe(servers[0].stop)
        thread.join()
        loop.close()


@pytest.fixture
def container(proxy: Proxy) -> Iterator[ContainerClient]:
    name = f"in-{random.randrange(10**9)}"
    with BlobServiceClient(proxy.url, credential=KEY) as client:
        yield client.create_container(name)


def target_of(container: ContainerClient, blob: str, rights: str = "rcwd") -> str:
    """Return the path of a blob, signed so that everybody has these *rights*."""
    sas = generate_blob_sas(
        ACCOUNT,
        container.container_name,
        blob,
        account_key=KEY,
        permission=rights,
        expiry="2099-01-01",
    )
    return f"/{ACCOUNT}/{container.container_name}/{blob}?{sas}"


def ask(proxy: Proxy, method: str, target: str, **headers: str) -> tuple[int, str]:
    """Send a request whose body is "1"; return status and body of the answer."""
    client = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=60)
    with contextlib.closing(client):
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        client.request(method, target, b"1", named)
        answer = client.getresponse()
        return answer.status, answer.read().decode()


def test_trailers_are_no_headers_for_storage_either(
    proxy: Proxy, container: ContainerClient
) -> None:
    """Azurite takes no chunked blobs, but a chunked request without content."""
    container.upload_blob("small", b"1")
    head = [f"PUT {target_of(container, 'small')}&comp=metadata HTTP/1.1", "Host: 127.0.0.1"]
    head += ["x-ms-meta-early: 1", "Transfer-Encoding: chunked", "Connection: close"]
    body = "0\r\nx-ms-meta-late: 1\r\n\r\n"
    with socket.create_connection(("127.0.0.1", proxy.port), 60) as client:
        client.sendall("\r\n".join([*head, "", body]).encode())
        answer = b"".join(iter(lambda: client.recv(65536), b""))

    assert answer.startswith(b"HTTP/1.1 200 "), answer
    assert container.get_blob_client("small").get_blob_properties().metadata == {"early": "1"}


def ask_batch(proxy: Proxy, batch: bytes, **headers: str) -> tuple[int, str]:
    """Send a batch without credentials; return status and body of the answer."""
    client = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=60)
    with contextlib.closing(client):
        named = {"Content-Type": "multipart/mixed; boundary=b"} | headers
        client.request("POST", f"/{ACCOUNT}?comp=batch&sig=secret", batch, named)
        answer = client.getresponse()
        return answer.status, answer.read().decode()


def peak() -> int:
    """Return the most memory that this process has had, in bytes."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found
    return int(found[1]) * 1024


def test_large_blobs_pass_through_and_are_not_kept(
    proxy: Proxy, container: ContainerClient
) -> None:
    # Not by the SDK, which has the whole body of a Put Blob in memory.
    chunk = os.urandom(MEBIBYTE)
    target = target_of(container, "large")
    container.upload_blob("small", chunk)  # the control: everything is loaded
    before = peak()

    client = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=120)
    headers = {"x-ms-blob-type": "BlockBlob", "Content-Length": str(SIZE)}
    client.request("PUT", target, (chunk for _ in range(SIZE // MEBIBYTE)), headers)
    made = client.getresponse()
    assert made.read() == b""
    client.request("GET", target)
    answer, loaded = client.getresponse(), 0
    while part := answer.read(MEBIBYTE):
        loaded += len(part)
    client.close()

    assert (made.status, answer.status, loaded) == (201, 200, SIZE)
    assert proxy.told.apis == [("PutBlob", "small"), ("PutBlob", "large")]
    assert proxy.told.changes[-1]["size"] == SIZE
    assert proxy.told.changes[-1]["etag"] == made.headers["ETag"]
    assert peak() - before < SIZE / 4


def test_blocks_are_told_of_when_they_are_committed(
    proxy: Proxy, container: ContainerClient
) -> None:
    with BlobClient(
        proxy.url,
        container.container_name,
        "blocks",
        credential=KEY,
        max_single_put_size=1000,
        max_block_size=1000,
    ) as blob:
        made = blob.upload_blob(b"x" * 10_500, max_concurrency=4)

    (change,) = proxy.told.changes
    assert (change["api"], change["size"]) == ("PutBlockList", 10_500)
    assert change["etag"] == made["etag"]
    assert change["url"] == f"{proxy.url}/{container.container_name}/blocks"


def test_what_changes_no_blob_is_not_told_of(proxy: Proxy, container: ContainerClient) -> None:
    blob = container.upload_blob("x", b"1")
    snapshot = blob.create_snapshot()
    blob.set_blob_metadata({"a": "b"})
    assert blob.download_blob().readall() == b"1"
    assert [each.name for each in container.list_blobs()] == ["x"]
    container.get_blob_client("x", snapshot=str(snapshot["snapshot"])).delete_blob()
    blob.create_snapshot()
    blob.delete_blob(delete_snapshots="only")
    for refused in (
        lambda: container.upload_blob("x", b"2"),
        lambda: container.delete_blob("missing"),
        lambda: container.get_blob_client("y").start_copy_from_url(f"{proxy.url}/none/none"),
    ):
        with pytest.raises(HttpResponseError):
            refused()
    container.delete_container()

    assert proxy.told.apis == [("PutBlob", "x")]


@pytest.mark.parametrize("query", ["snapshot=", "versionid=2026-02-09T12:00:00.0000000Z", "comp=x"])
def test_a_blob_that_is_gone_is_told_of_whatever_was_asked_for(
    proxy: Proxy, container: ContainerClient, query: str
) -> None:
    container.upload_blob("x", b"1")

    status, _ = ask(proxy, "DELETE", f"{target_of(container, 'x')}&{query}")

    assert (status, list(container.list_blobs())) == (202, [])
    assert proxy.told.apis == [("PutBlob", "x"), ("DeleteBlob", "x")]


def test_a_large_upload_that_is_refused_says_why(proxy: Proxy, container: ContainerClient) -> None:
    url = f"http://127.0.0.1:{proxy.port}{target_of(container, 'x', 'r')}"
    with (
        BlobClient.from_blob_url(url, max_single_put_size=SIZE) as blob,
        pytest.raises(HttpResponseError) as caught,
    ):
        blob.upload_blob(b"x" * (10 * MEBIBYTE))

    assert caught.value.status_code == 403
    assert not proxy.told.changes


@pytest.mark.parametrize(
    ("host", "path"),
    [
        (f"{ACCOUNT}.blob.localhost", "/{container}/folder/x"),
        (f"{ACCOUNT}.blob.localhost", f"/{ACCOUNT}/x"),
        ("127.0.0.1", "/another/{container}/x"),
    ],
)
def test_an_address_without_the_account_is_refused(
    proxy: Proxy, container: ContainerClient, host: str, path: str
) -> None:
    """Azurite finds an account in the host, too: what is a container, and what a blob, differs."""
    signature = target_of(container, "folder/x").partition("?")[2]
    target = f"{path.format(container=container.container_name)}?{signature}"
    status, text = ask(proxy, "PUT", target, Host=host, x_ms_blob_type="BlockBlob")

    assert status == 400
    assert f"a blob's address is http://HOST/{ACCOUNT}/" in text
    assert not proxy.told.changes
    assert not list(container.list_blobs())


@pytest.mark.parametrize(
    ("batch", "status", "code"),
    [
        (b"--b\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n" * 256, 400, "InvalidInput"),
        (b"--b\r\n" * 257, 400, "ExceedsMaxBatchRequestCount"),
        (b"x" * (4 * MEBIBYTE), 400, "InvalidInput"),
        (b"x" * (4 * MEBIBYTE + 1), 413, "RequestBodyTooLarge"),
    ],
)
def test_a_batch_that_storage_refuses_is_refused(
    proxy: Proxy, batch: bytes, status: int, code: str
) -> None:
    answered, text = ask_batch(proxy, batch)

    assert answered == status
    assert f"<Code>{code}</Code>" in text


def test_a_refused_request_is_logged_without_its_signature(
    proxy: Proxy, caplog: pytest.LogCaptureFixture
) -> None:
    ask_batch(proxy, b"")
    ask(proxy, "PUT", f"/{ACCOUNT}/in/x?comp=tags&sig=secret", x_ms_blob_type="BlockBlob")
    ask(proxy, "GET", f"/{ACCOUNT}/in/x?sig=secret", x_http_method="DELETE")

    refused = [each.getMessage() for each in caplog.records]
    assert len(refused) == 3
    assert all(f"blob request '/{ACCOUNT}" in each for each in refused)
    assert "secret" not in caplog.text


def test_of_two_content_types_a_batch_has_the_first(
    proxy: Proxy, container: ContainerClient
) -> None:
    """So has Azurite: it must not change what the proxy does not see."""
    container.upload_blob("x", b"1")
    proxy.told.changes.clear()
    sas = generate_account_sas(
        ACCOUNT,
        account_key=KEY,
        resource_types="sco",
        permission="rwdl",
        expiry="2099-01-01",
    )
    target = f"/{ACCOUNT}/{container.container_name}/x?{sas}"
    batch = f"--b\r\nContent-ID: 0\r\n\r\nDELETE {target} HTTP/1.1\r\n\r\n--b--\r\n".encode()
    client = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=60)
    with contextlib.closing(client):
        client.putrequest("POST", f"/{ACCOUNT}?comp=batch&{sas}")
        client.putheader("Content-Length", str(len(batch)))
        for boundary in "bc":
            client.putheader("Content-Type", f"multipart/mixed; boundary={boundary}")
        client.endheaders(batch)
        assert client.getresponse().status == 202

    assert proxy.told.apis == [("DeleteBlob", "x")]
    assert not list(container.list_blobs())


def test_others_are_answered_while_a_batch_is_read(
    proxy: Proxy, container: ContainerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_read, release = threading.Event(), threading.Event()

    def read(batch: bytes, content_type: str) -> Any:
        is_read.set()
        release.wait(60)
        return changes_in(batch, content_type)

    monkeypatch.setattr(blob_proxy, "changes_in", read)
    with ThreadPoolExecutor(1) as client:
        refused = client.submit(ask_batch, proxy, b"--b\r\n")
        assert is_read.wait(60)
        container.upload_blob("x", b"1")
        assert not refused.done()
        release.set()

        assert refused.result()[0] == 400


@pytest.mark.parametrize("host", ["\xe2\x84\x80.localhost", "\xff", "a<b", "a b", "[::1]x"])
def test_a_malformed_host_is_refused(proxy: Proxy, container: ContainerClient, host: str) -> None:
    """It would stand in the event's URL."""
    status, text = ask(
        proxy, "PUT", target_of(container, "x"), Host=host, x_ms_blob_type="BlockBlob"
    )

    assert status == 400
    assert "<Code>InvalidHeaderValue</Code>" in text
    assert not proxy.told.changes


def test_the_most_requests_of_a_batch_are_told_of(proxy: Proxy, container: ContainerClient) -> None:
    names = [f"ü {number}" for number in range(256)]
    with ThreadPoolExecutor(8) as clients:
        list(clients.map(lambda name: container.upload_blob(name, b""), names))
    proxy.told.changes.clear()

    answers = list(container.delete_blobs(*names))

    assert {each.status_code for each in answers} == {202}
    assert sorted(proxy.told.apis) == sorted(("DeleteBlob", name) for name in names)


def test_a_client_that_is_slow_holds_up_no_other(proxy: Proxy, container: ContainerClient) -> None:
    slow = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=60)
    slow.putrequest("PUT", target_of(container, "x"))
    slow.putheader("x-ms-blob-type", "BlockBlob")
    slow.putheader("Content-Length", "10")
    slow.endheaders(b"first")

    container.upload_blob("x", b"between")
    slow.send(b" last")
    answer = slow.getresponse()
    slow.close()

    assert answer.status == 201
    assert [each["size"] for each in proxy.told.changes] == [7, 10]
    assert container.download_blob("x").readall() == b"first last"


def test_a_blob_changes_again_only_when_its_change_was_told(
    proxy: Proxy, container: ContainerClient
) -> None:
    proxy.told.hold.clear()
    with ThreadPoolExecutor(2) as clients:
        uploads = [
            clients.submit(container.upload_blob, "x", content, overwrite=True)
            for content in (b"1", b"22")
        ]
        threading.Event().wait(1)
        told = len(proxy.told.changes)
        proxy.told.hold.set()
        for each in uploads:
            each.result()

    assert told == 1
    assert len(proxy.told.changes) == 2


def test_a_client_that_breaks_off_changes_nothing(proxy: Proxy, container: ContainerClient) -> None:
    broken = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=60)
    broken.putrequest("PUT", f"/{ACCOUNT}/{container.container_name}/x")
    broken.putheader("x-ms-blob-type", "BlockBlob")
    broken.putheader("Content-Length", "10")
    broken.endheaders(b"first")
    broken.close()
    container.upload_blob("y", b"")

    assert proxy.told.apis == [("PutBlob", "y")]
    assert [each.name for each in container.list_blobs()] == ["y"]


def test_an_app_that_can_store_no_event_is_an_error_to_the_client(
    proxy: Proxy, container: ContainerClient
) -> None:
    proxy.told.fault = OSError("storage is away")
    with (
        BlobClient(proxy.url, container.container_name, "x", credential=KEY, retry_total=0) as blob,
        pytest.raises(HttpResponseError) as caught,
    ):
        blob.upload_blob(b"1")
    assert caught.value.status_code == 503
    assert "its event may not be stored" in str(caught.value)

    proxy.told.fault = None
    container.upload_blob("x", b"1", overwrite=True)
    assert proxy.told.apis == [("PutBlob", "x")]


def test_a_thousand_uploads_are_told_of_in_the_order_of_each_blob(
    proxy: Proxy, container: ContainerClient
) -> None:
    names = [f"{number}" for number in range(20)]

    def upload(seed: int) -> list[tuple[str, str]]:
        drawn = random.Random(seed).choices(names, k=125)
        return [
            (name, container.get_blob_client(name).upload_blob(name, overwrite=True)["etag"])
            for name in drawn
        ]

    with ThreadPoolExecutor(8) as clients:
        uploaded = list(clients.map(upload, range(8)))

    assert len(proxy.told.changes) == 1000
    for name in names:
        of_name = [each for each in proxy.told.changes if each["path"] == name]
        times = [each["written_at"] for each in of_name]
        assert times == sorted(set(times))
        etags = [each["etag"] for each in of_name]
        assert etags[-1] == container.get_blob_client(name).get_blob_properties().etag
        for of_client in uploaded:
            own = [etag for found, etag in of_client if found == name]
            assert own == [etag for etag in etags if etag in own]


@pytest.mark.parametrize(
    "connection",
    [
        f"AccountName=shop;AccountKey={KEY}",
        (
            f"DefaultEndpointsProtocol=https;AccountName=a;AccountKey={KEY};"
            "BlobEndpoint=https://127.0.0.1:1/a;QueueEndpoint=https://127.0.0.1:1/a"
        ),
    ],
)
def test_it_is_for_azurite_alone(connection: str) -> None:
    account = find_account(STORAGE, {STORAGE: connection})

    with pytest.raises(HostError, match="--blob-events is for Azurite"):
        BlobProxy(account, Told())
