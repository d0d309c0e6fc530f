"""Which requests to the blob service create or delete blobs."""

from __future__ import annotations

import pytest

from devhost.blobs.blob_changes import (
    BatchItemAnswer,
    BlobChange,
    RefusedRequest,
    change_of,
    changes_in,
    is_batch,
    outcomes_in,
)

BLOB = "/devstoreaccount1/in/a/b.txt"
PUT = {"x-ms-blob-type": "BlockBlob"}
COPY = {"x-ms-copy-source": "http://127.0.0.1/devstoreaccount1/in/c"}


@pytest.mark.parametrize(
    ("method", "query", "headers", "api"),
    [
        ("PUT", "", PUT, "PutBlob"),
        ("PUT", "?timeout=30&sig=x", {"x-ms-blob-type": "AppendBlob"}, "PutBlob"),
        ("PUT", "", PUT | COPY, "PutBlob"),  # from a URL
        ("PUT", "", COPY, "CopyBlob"),
        ("PUT", "?comp=blocklist", {}, "PutBlockList"),
        ("DELETE", "", {}, "DeleteBlob"),
        ("DELETE", "", {"x-ms-delete-snapshots": "include"}, "DeleteBlob"),
        ("DELETE", "", {"x-ms-delete-snapshots": "only"}, None),
        ("DELETE", "?snapshot=2026-02-09T12:00:00.0000000Z", {}, None),
        ("DELETE", "?snapshot=2026-02-09T12:00:00.0000000Z&snapshot=", {}, "DeleteBlob"),
        ("PUT", "?comp=metadata&comp=x", PUT, "PutBlob"),
        ("PUT", "?comp=", PUT, "PutBlob"),
        ("PUT", "?comp=block&blockid=eA==", {}, None),
        ("PUT", "?comp=block&blockid=eA==", COPY, None),
        ("PUT", "?comp=appendblock", PUT, None),
        ("PUT", "?comp=snapshot", {}, None),
        ("HEAD", "", {}, None),
    ],
)
def test_the_operations_that_create_and_delete(
    method: str, query: str, headers: dict[str, str], api: str | None
) -> None:
    found = change_of(method, f"{BLOB}{query}", headers)

    assert found == (BlobChange(api, "in", "a/b.txt", BLOB) if api else None)


@pytest.mark.parametrize(
    ("method", "query", "headers"),
    [
        ("PUT", "?comp=metadata", PUT),
        ("PUT", "?comp=page", COPY),
        ("GET", "", {"x-http-method": "DELETE"}),
    ],
)
def test_what_azurite_would_take_for_something_else_is_refused(
    method: str, query: str, headers: dict[str, str]
) -> None:
    with pytest.raises(RefusedRequest, match="with --blob-events"):
        change_of(method, f"{BLOB}{query}", headers)


@pytest.mark.parametrize("path", ["/", "/devstoreaccount1", "/devstoreaccount1/in"])
def test_containers_are_no_blobs(path: str) -> None:
    assert change_of("DELETE", f"{path}?restype=container", {}) is None
    assert change_of("PUT", path, PUT) is None


def test_the_name_of_a_blob_is_decoded_as_storage_does() -> None:
    found = change_of("PUT", "/devstoreaccount1/in/gr%C3%BC%C3%9Fe%20+%5Cx%2Fy", PUT)

    assert found
    assert (found.container, found.blob) == ("in", "grüße +/x/y")


BATCH = (
    "--b\r\nContent-Type: application/http\r\nContent-ID: 0\r\n\r\n"
    f"DELETE {BLOB}?sv=1 HTTP/1.1\r\nx-ms-date: now\r\nContent-Length: 0\r\n\r\n\r\n"
    "--b\r\nContent-Type: application/http\r\nContent-ID: 1\r\n\r\n"
    f"PUT {BLOB}?comp=tier HTTP/1.1\r\nx-ms-access-tier: Hot\r\n\r\n\r\n"
    "--b\r\nContent-Type: application/http\r\nContent-ID: 2\r\n\r\n"
    f"DELETE {BLOB} HTTP/1.1\r\nx-ms-delete-snapshots: only\r\n\r\n\r\n"
    "--b--\r\n"
).encode()
ANSWER = (
    b"--r\r\nContent-Type: application/http\r\nContent-ID: 0\r\n\r\n"
    b"HTTP/1.1 202 Accepted\r\nx-ms-request-id: r-0\r\n\r\n\r\n"
    b"--r\r\nContent-Type: application/http\r\nContent-ID: 1\r\n\r\n"
    b"HTTP/1.1 404 The specified blob does not exist.\r\nx-ms-request-id: r-1\r\n\r\n<Error/>\r\n"
    b"--r--\r\n"
)


def test_a_batch_deletes() -> None:
    assert is_batch("POST", "/devstoreaccount1?comp=batch&sv=1")
    assert not is_batch("POST", "/devstoreaccount1?comp=userdelegationkey")

    assert changes_in(BATCH, "multipart/mixed; boundary=b") == [
        BlobChange("DeleteBlob", "in", "a/b.txt", BLOB, "0")
    ]
    assert outcomes_in(ANSWER, "multipart/mixed; boundary=r") == {
        "0": BatchItemAnswer(202, "r-0"),
        "1": BatchItemAnswer(404, "r-1"),
    }


@pytest.mark.parametrize("number", [b"0", b"a", b"01", b""])
def test_each_request_of_a_batch_has_a_number_of_its_own(number: bytes) -> None:
    """Azurite says neither which of two it means, nor what else than a number it was given."""
    with pytest.raises(RefusedRequest, match="a number of its own as its Content-ID"):
        changes_in(BATCH.replace(b"ID: 2", b"ID: " + number), "multipart/mixed; boundary=b")


def part(number: int, of: bytes = b"DELETE /a/c/b HTTP/1.1") -> bytes:
    return b"--b\r\nContent-ID: %d\r\n\r\n%b\r\n\r\n" % (number, of)


def nested(depth: int) -> bytes:
    heads = (
        b"--%d\r\nContent-Type: multipart/mixed; boundary=%d\r\n\r\n" % (each, each + 1)
        for each in range(depth)
    )
    return b"".join(heads)


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (BATCH, "multipart/mixed"),
        (BATCH, "application/json"),
        (BATCH, "multipart/mixed; boundary=c"),
        (BATCH, "multipart/mixed; boundary=b; boundary=b"),
        (b"\xff\x00", "multipart/mixed; boundary=b"),
        (b"--b\r\n\r\nHTTP/1.1\r\n\r\n--b--", "multipart/mixed; boundary=b"),
        (b"--b\r\nContent-ID: 0", "multipart/mixed; boundary=b"),
        (part(0, b"DELETE /a/c/b"), "multipart/mixed; boundary=b"),
        (part(0, b"DELETE /a/c/b x HTTP/1.1"), "multipart/mixed; boundary=b"),
        (part(0, "DELETE /a/c/ü HTTP/1.1".encode()), "multipart/mixed; boundary=b"),
        (part(0, b"DELETE http://h/a/c/b HTTP/1.1"), "multipart/mixed; boundary=b"),
        (part(0, b"DELETE /a/c/b HTTP/1.1\r\nx-ms-date"), "multipart/mixed; boundary=b"),
        (part(0, b"DELETE /a/c/b HTTP/1.1\r\nx-ms-date: \xff"), "multipart/mixed; boundary=b"),
        (part(0, nested(2).replace(b"--0", b"--c")), "multipart/mixed; boundary=b"),
        (nested(3000), "multipart/mixed; boundary=0"),
        (nested(3000), "multipart/mixed; boundary=2999"),
    ],
)
def test_a_malformed_batch_is_refused_as_storage_does(body: bytes, content_type: str) -> None:
    with pytest.raises(RefusedRequest) as caught:
        changes_in(body, content_type)

    assert (caught.value.status, caught.value.code) == (400, "InvalidInput")


def test_a_batch_has_256_requests_at_most() -> None:
    most = b"".join(map(part, range(256)))

    assert len(changes_in(most, "multipart/mixed; boundary=b")) == 256
    with pytest.raises(RefusedRequest) as caught:
        changes_in(most + part(256), "multipart/mixed; boundary=b")
    assert (caught.value.status, caught.value.code) == (400, "ExceedsMaxBatchRequestCount")


@pytest.mark.parametrize("path", ["/a/c/%", "/a/c/%f", "/a/c/%ff", "/a/c/%ED%A0%80", "/a/c/%zz"])
def test_a_path_that_is_not_encoded_is_refused(path: str) -> None:
    """Azurite answers 500 to it."""
    with pytest.raises(RefusedRequest) as caught:
        change_of("GET", path, {})

    assert (caught.value.status, caught.value.code) == (400, "InvalidUri")


def test_an_answer_of_anything_else_has_no_outcomes() -> None:
    assert not outcomes_in(b"<Error/>", "application/xml")


@pytest.mark.parametrize("sign", ["x", "%D0%B6", "%00"])
def test_a_refusal_repeats_only_the_beginning_of_what_was_sent(sign: str) -> None:
    """It is logged and answered."""
    with pytest.raises(RefusedRequest, match="comp='") as caught:
        change_of("PUT", f"{BLOB}?comp={sign * 1_000_000}", PUT)

    assert len(str(caught.value)) < 300
