"""The app on a home, as the server answers with it: in process, without a connection."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial
from ipaddress import ip_network
from pathlib import Path
from threading import Event, Thread
from types import MappingProxyType
from typing import Any

import pytest

from cli.deployment import Deployment, subscription_path
from cli.serving.beside import BesideTheApp
from cli.serving.in_process import deployment_of
from server.environment import CLIENT_ADDRESS, read_server_settings
from server.home import FolderHomeFactory
from server.http.asgi import AsgiApp
from server.http.reading import RequestReader
from server.served_app import ServedApp, new_clock
from server.sqlite_home import SqliteHome
from shared.adapters.threads import SystemThreads
from shared.engine.ports import Queue, Table
from shared.http import NotAnswered, OutboundRequest
from shared.subscriptions.subscription import SubscriptionKey
from tests.builders import a_topic, an_event
from tests.server.memory_home import MemoryHome

URL = "http://127.0.0.1:7071"
_SETTINGS = {
    "PUSHGRID_ADMIN_KEY": "key",
    "PUSHGRID_LOCAL_SHORTCUTS": "true",
    "PUSHGRID_ALLOW_HTTP": "true",
}
LIMIT = 2_000_000
KEY = SubscriptionKey("orders", "crm")


def on_app(
    test: Callable[[ServedApp], Any],
    make_home: FolderHomeFactory = MemoryHome,
    folder: Path = Path(),
    settings: Mapping[str, str] = MappingProxyType({}),
) -> Any:
    """Run *test* on a thread beside the loop of an app on a new home."""

    async def go() -> Any:
        threads, clock = SystemThreads(), new_clock()
        threads.attach()
        found = read_server_settings({**_SETTINGS, **settings})
        home = make_home(folder, found, clock, threads)
        app = ServedApp(found, home, clock, threads)
        await app.worker.open()
        try:
            return await asyncio.to_thread(test, app)
        finally:
            await home.close()

    return asyncio.run(go())


def subscribe(api: Deployment, topic: str, name: str) -> None:
    api.put(f"topics/{topic}", {"location": "local"})
    destination = {"endpointType": "WebHook", "properties": {"endpointUrl": "http://127.0.0.1:9/"}}
    body = {"properties": {"destination": destination}}
    api.put(subscription_path(topic, name), body, {"pushgrid-consent": "assumed"})


def test_a_hold_pauses_every_subscription_and_leaves_a_pause_as_it_is():
    def test(app: ServedApp) -> None:
        api = deployment_of(app, URL)
        for name in ("crm", "erp"):
            subscribe(api, "orders", name)
        api.post(f"{subscription_path('orders', 'erp')}/pause")
        (since,) = pauses(api, "erp")
        BesideTheApp(URL, None, hold=True).before_deliveries(app)
        assert pauses(api, "erp") == [since]
        assert (since["by"], *(each["by"] for each in pauses(api, "crm"))) == (
            "the admin key",
            "--hold",
        )

    def pauses(api: Deployment, name: str) -> list[Any]:
        topics = api.status("topics")["value"]
        found = [each for topic in topics for each in topic["subscriptions"]]
        return [each["paused"] for each in found if each["name"] == name and each["paused"]]

    on_app(test)


def test_sqlite_ends_a_message_with_what_follows(tmp_path: Path):
    """In the transaction that stores the retry: nobody has to end the message after that."""

    def test(app: ServedApp) -> tuple[bool, int]:
        subscribe(deployment_of(app, URL), "orders", "crm")
        return app.threads.on_loop(deliver(app))

    async def deliver(app: ServedApp) -> tuple[bool, int]:
        assert isinstance(app.home, SqliteHome)
        leases, queues = app.home.store.leases, app.home.store.queues
        await app.app.publish.accept(a_topic(), [an_event()], "publish-1")
        (lease,) = await leases.claim(Queue.DELIVERIES, 10)
        await app.worker.deliver(lease)  # to port 9, where nobody listens
        waiting, _ = await asyncio.to_thread(queues.unfinished)
        return leases.has(lease), waiting[KEY].events

    assert on_app(test, SqliteHome, tmp_path / "data") == (False, 1)


def test_what_is_published_after_a_subscription_was_answered_reaches_it(tmp_path: Path):
    """The cache has the topic's subscriptions as they were, and a reading of them is under way."""

    def test(app: ServedApp) -> dict[str, int]:
        api, may_read, has_read = deployment_of(app, URL), Event(), Event()
        subscribe(api, "orders", "crm")
        documents = app.home.store.documents
        read = documents.list

        def slow(table: Table, partition: str) -> Any:
            found = read(table, partition)
            if table is Table.EVENT_SUBSCRIPTIONS and not has_read.is_set():
                has_read.set()
                may_read.wait(60)
            return found

        documents.list = slow  # type: ignore[method-assign]
        publish = partial(app.app.publish.accept, a_topic(), [an_event()])
        early = Thread(target=lambda: app.threads.on_loop(publish("publish-1")))
        early.start()
        assert has_read.wait(60)
        subscribe(api, "orders", "erp")
        app.threads.on_loop(publish("publish-2"))
        may_read.set()
        early.join(60)
        waiting = app.home.store.queues.unfinished()[0]  # type: ignore[attr-defined]
        return {key.subscription: each.events for key, each in waiting.items()}

    assert on_app(test, SqliteHome, tmp_path / "data") == {"crm": 2, "erp": 1}


def test_the_home_tells_whether_events_wait():
    """The tests' own home, as the server asks it before it deletes."""

    def test(app: ServedApp) -> tuple[bool, bool]:
        api, key = deployment_of(app, URL), KEY
        subscribe(api, "orders", "crm")
        before = app.home.has_waiting(key)
        sent = ask(app, "POST", "/topics/orders/api/events", EVENT, key_of(api))
        assert sent[0] == 200
        return before, app.home.has_waiting(key)

    assert on_app(test) == (False, True)


EVENT = json.dumps(
    [{"id": "1", "subject": "/a", "eventType": "T", "eventTime": "2026-01-01T00:00:00Z"}]
).encode()


def key_of(api: Deployment) -> dict[str, str]:
    return {"aeg-sas-key": api.keys("topics/orders", None)["key1"]}


def ask(
    app: ServedApp,
    method: str,
    path: str,
    body: bytes = b"",
    headers: dict[str, str] | None = None,
    **scope: Any,
) -> tuple[int, dict[str, str], bytes]:
    """Send a request through the ASGI app; return status, headers and body."""
    sent: list[Any] = []
    given = {"host": "127.0.0.1:7071", "content-length": str(len(body)), **(headers or {})}
    whole = {
        "method": method,
        "scheme": "http",
        "client": ("127.0.0.1", 1),
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in given.items()],
        **scope,
    }

    async def receive() -> Any:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    proxies = [ip_network("10.0.0.0/8")]
    asgi = AsgiApp(
        app=app,
        reader=RequestReader(proxies=proxies, client_header=CLIENT_ADDRESS),
        not_ready=lambda: app.home.store.fault or None,
        body_limit=LIMIT,
        is_guarded=True,
    )
    app.threads.on_loop(asgi(whole, receive, send))
    start, *parts = sent
    found = {name.decode().lower(): value.decode() for name, value in start["headers"]}
    return start["status"], found, b"".join(each["body"] for each in parts)


@pytest.mark.parametrize(
    ("path", "member"),
    [("/topics/orders/api/events", "error"), ("/subscriptions/x", "error")],
)
def test_a_body_over_the_limit_gets_413_in_the_form_of_who_would_have_answered(path, member):
    status, headers, body = on_app(lambda app: ask(app, "POST", path, b"x" * (LIMIT + 1)))

    assert status == 413
    assert headers["connection"] == "close"
    assert str(LIMIT) in json.loads(body)[member]["message"]


@pytest.mark.parametrize(
    ("client", "scheme", "status"),
    [
        ("127.0.0.1", "http", 200),
        ("10.1.2.3", "http", 200),
        ("192.0.2.1", "https", 200),
        ("192.0.2.1", "http", 403),
        (None, "http", 403),
    ],
)
def test_over_http_only_proxies_and_this_machine_are_answered(client, scheme, status):
    def test(app: ServedApp) -> list[int]:
        peer = client and (client, 1)
        paths = ("/status/health", "/healthz")
        return [ask(app, "GET", each, client=peer, scheme=scheme)[0] for each in paths]

    assert on_app(test) == [status, 200]


def test_readiness_has_the_reason_of_the_home_and_the_health_sends_there():
    def test(app: ServedApp) -> Any:
        app.home.store.fault = "the disk is full"  # type: ignore[misc]
        return [ask(app, "GET", each) for each in ("/readyz", "/healthz", "/status/health")]

    ready, alive, health = on_app(test)
    assert (ready[0], ready[2]) == (503, b"the disk is full\n")
    assert alive[0] == 200
    assert (health[0], b"/readyz" in health[2], b"disk" in health[2]) == (503, True, False)


def test_a_fault_of_ours_is_logged_and_answered_500(caplog):
    def test(app: ServedApp) -> Any:
        app.__dict__["app"] = None  # what is asked of it is a fault
        with caplog.at_level("INFO", "pushgrid"):
            return ask(app, "POST", "/topics/orders/api/events", b"[]")

    assert on_app(test)[0] == 500
    assert "request.failed" in caplog.text


def test_rules_for_addresses_see_the_publisher_and_not_what_it_claims():
    rules = {"inboundIpRules": [{"ipMask": "10.9.9.9/32", "action": "Allow"}]}

    def test(app: ServedApp) -> list[int]:
        api = deployment_of(app, URL)
        api.put("topics/orders", {"location": "local", "properties": rules})
        given = key_of(api)
        forged = {**given, CLIENT_ADDRESS: "10.9.9.9", "x-forwarded-for": "10.9.9.9"}
        path = "/topics/orders/api/events"
        return [
            ask(app, "POST", path, EVENT, forged, client=(client, 1))[0]
            for client in ("127.0.0.1", "10.1.1.1")
        ]

    assert on_app(test) == [403, 200]


def test_without_the_home_s_lease_nothing_is_pushed(monkeypatch: pytest.MonkeyPatch):
    """Others may have the event; so nobody is asked, and it comes again."""

    def test(app: ServedApp) -> list[bool]:
        return [app.threads.on_loop(is_pushed(app, has_lease=each)) for each in (False, True)]

    async def is_pushed(app: ServedApp, *, has_lease: bool) -> bool:
        monkeypatch.setattr(app.home, "has_lease", has_lease)
        request = OutboundRequest("POST", "http://127.0.0.1:9/", {}, b"[]")  # nobody listens
        found = await app.outbound.pusher.send(request, timedelta(seconds=30))
        assert isinstance(found, NotAnswered)
        return "lease" not in found.detail

    assert on_app(test) == [False, True]
