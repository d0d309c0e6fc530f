"""Requests are read as their clients sent them; only proxies are believed about clients."""

from __future__ import annotations

import asyncio
from ipaddress import ip_network
from typing import Any

import pytest

from server.http.reading import (
    BadRequest,
    BodyBudget,
    BodyTooLarge,
    ClientGone,
    RequestReader,
    TooManyBodies,
    decoded_path,
    read_body,
)

MINE = "x-client"
READER = RequestReader(
    proxies=[ip_network("10.0.0.0/8"), ip_network("fd00::/8")], client_header=MINE
)


def scope(client: Any = "10.0.0.1", path: Any = b"/a", **headers: Any) -> dict[str, Any]:
    given = {"host": "events.example"} | {
        name.replace("_", "-"): value for name, value in headers.items()
    }
    return {
        "method": "POST",
        "scheme": "http",
        "client": (client, 1),
        "raw_path": path,
        "query_string": b"X=1&y=%20",
        "headers": [(name.encode(), value.encode()) for name, value in given.items()],
    }


@pytest.mark.parametrize(
    ("peer", "forwarded", "client"),
    [
        ("192.0.2.7", None, "192.0.2.7"),
        ("192.0.2.7", "198.51.100.1", "192.0.2.7"),  # no proxy
        ("10.0.0.1", None, "10.0.0.1"),
        ("10.0.0.1", "198.51.100.1", "198.51.100.1"),
        ("10.0.0.1", "6.6.6.6, 198.51.100.1", "198.51.100.1"),  # the first is forged
        ("10.0.0.1", "6.6.6.6, 198.51.100.1, 10.0.0.9", "198.51.100.1"),  # two proxies
        ("10.0.0.1", "10.0.0.8, 10.0.0.9", "10.0.0.8"),
        ("10.0.0.1", "198.51.100.1:4711", "198.51.100.1"),
        ("10.0.0.1", "[2001:db8::1]:4711", "2001:db8::1"),
        ("10.0.0.1", "2001:db8::1", "2001:db8::1"),
        ("10.0.0.1", "198.51.100.1, nobody", None),
        ("::ffff:10.0.0.1", "198.51.100.1", "198.51.100.1"),
        ("fd00::1", "198.51.100.1", "198.51.100.1"),
    ],
)
def test_the_client_is_the_nearest_hop_that_is_no_proxy(peer, forwarded, client):
    headers = {"x_forwarded_for": forwarded} if forwarded else {}
    request = READER.read(scope(peer, **headers, **{MINE.replace("-", "_"): "6.6.6.6"}))

    assert request.headers.get(MINE) == client


def test_a_proxy_says_under_which_url_the_client_asked():
    headers = {"x_forwarded_proto": "https", "x_forwarded_host": "public.example:8443"}

    assert READER.read(scope(**headers)).url == "https://public.example:8443/a?X=1&y=%20"
    assert READER.read(scope("192.0.2.7", **headers)).url == "http://events.example/a?X=1&y=%20"
    assert READER.read(scope(**headers)).query == {"x": "1", "y": " "}


@pytest.mark.parametrize(
    "headers",
    [
        {"x_forwarded_proto": "ftp"},
        {"x_forwarded_host": "a b"},
        {"x_forwarded_host": "a/b"},
        {"host": ""},
        {"host": "a/b"},
        {"host": "a@b"},
    ],
)
def test_a_url_that_can_not_be_is_refused(headers):
    with pytest.raises(BadRequest):
        READER.read(scope(**headers))


@pytest.mark.parametrize("count", [0, 2])
def test_a_request_has_one_host(count):
    given = scope()
    given["headers"] = [(b"host", b"a")] * count

    with pytest.raises(BadRequest):
        READER.read(given)


def test_repeated_headers_are_joined_and_doubled_slashes_are_one():
    given = scope(path=b"//topics//a")
    given["headers"] += [(b"X-A", b"1"), (b"x-a", "ä".encode())]
    request = READER.read(given)

    assert request.headers["x-a"] == "1,ä"
    assert request.url == "http://events.example/topics/a?X=1&y=%20"


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        ("/topics/a%20b/api/events", "topics/a b/api/events"),
        ("/subscriptions/a%2Fb", "subscriptions/a%2Fb"),
        ("/a/./b/../c", "a/c"),
        ("/%2e%2e/healthz", "healthz"),
        ("//topics///a%20b//api/events", "topics/a b/api/events"),
        ("/", ""),
    ],
)
def test_paths_are_decoded_for_routing(raw, path):
    assert decoded_path(raw) == path


def body(*chunks: bytes | None, announced: int | None = None, limit: int = 4) -> bytes:
    """Read a body that comes in *chunks*; ``None``: the client goes."""
    messages = iter(
        [
            *(
                {"type": "http.disconnect"}
                if each is None
                else {"type": "http.request", "body": each, "more_body": True}
                for each in chunks
            ),
            {"type": "http.request", "body": b"", "more_body": False},
        ]
    )

    async def receive() -> Any:
        return next(messages)

    headers = [] if announced is None else [(b"content-length", b"%d" % announced)]
    return asyncio.run(read_body({"headers": headers}, receive, limit, BodyBudget()))


def test_a_body_is_read_to_its_end():
    assert body(b"ab", b"cd") == b"abcd"
    with pytest.raises(BodyTooLarge):
        body(b"ab", b"cde")
    with pytest.raises(ClientGone):
        body(b"ab", None)


def test_what_is_announced_too_large_is_not_read():
    with pytest.raises(BodyTooLarge):
        body(None, announced=5)


def test_of_too_many_unfinished_bodies_the_oldest_is_given_up():
    """Small ones always have room; what has ended, or was given up, takes none."""

    class Sender:
        def __init__(self, budget: BodyBudget) -> None:
            self.sent: asyncio.Queue[Any] = asyncio.Queue()
            self.body = asyncio.create_task(read_body({"headers": []}, self.sent.get, 100, budget))

        async def send(self, size: int, *, more: bool = True) -> None:
            self.sent.put_nowait({"type": "http.request", "body": b"x" * size, "more_body": more})
            for _ in range(5):
                await asyncio.sleep(0)

    async def test() -> None:
        budget = BodyBudget(most=20, small=4)
        small = [Sender(budget) for _ in range(10)]
        for each in small:
            await each.send(4)
        first, second, third = (Sender(budget) for _ in range(3))
        await first.send(8)
        await second.send(8)
        await first.send(4)  # 20 in all
        assert not first.body.done()
        await third.send(5)
        assert isinstance(first.body.exception(), TooManyBodies)
        await third.send(7)  # 20 again, without the first
        for each in (second, third, *small):
            assert not each.body.done()
            await each.send(0, more=False)
        assert [len(each.body.result()) for each in (second, third, *small)] == [8, 12, *[4] * 10]
        fourth = Sender(budget)
        await fourth.send(20)
        await fourth.send(0, more=False)
        assert len(fourth.body.result()) == 20

    asyncio.run(test())


def test_what_was_given_up_takes_no_room_by_what_it_still_sends():
    async def give_up(budget: BodyBudget, second: asyncio.Timeout) -> None:
        async with asyncio.timeout(None) as first:
            budget.take(first, 15)
            budget.take(second, 15)
            budget.take(first, 16)  # in the same turn: it has not heard of it yet
            await asyncio.sleep(60)

    async def test() -> None:
        async with asyncio.timeout(None) as second:
            with pytest.raises(TimeoutError):
                await give_up(BodyBudget(most=20, small=4), second)
            assert second.when() is None

    asyncio.run(test())


def test_what_is_being_answered_counts_as_well():
    """A client that sends whole bodies, and waits, takes no more than one that sends halves."""

    async def test() -> None:
        budget = BodyBudget(most=20, small=4)
        sent: asyncio.Queue[Any] = asyncio.Queue()
        coming = asyncio.create_task(read_body({"headers": []}, sent.get, 100, budget))
        sent.put_nowait({"type": "http.request", "body": b"x" * 6, "more_body": True})
        with budget.answering(14), budget.answering(4):
            await asyncio.sleep(0)
            assert not coming.done()
            with pytest.raises(TooManyBodies), budget.answering(7):
                pass
            with budget.answering(6), pytest.raises(TooManyBodies):
                await coming
            with budget.answering(6):  # once one is answered, there is room again
                pass

    asyncio.run(test())
