"""The home in a folder: what it does by itself, on a database of its own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from cli.deployment import subscription_path
from cli.serving.beside import BesideTheApp
from cli.serving.in_process import deployment_of
from pushgrid.testing.memory import FakeClock
from server import worker
from server.data_folder import take_folder
from server.deliveries import Deliveries
from server.environment import read_server_settings
from server.failure import CannotStart
from server.http.connections import ConnectionLimits
from server.http.front import HttpFront
from server.options import ServerOptions, bind
from server.process import Prepared, RunningServer
from server.sd_notify import ServiceManager
from server.served_app import ServedApp
from server.sql_home import DEAD_LETTERS_KEPT_FOR
from server.sqlite_home import SqliteHome, check_store
from server.worker import Worker
from shared.adapters.sql.leases import MOST_FAILURES
from shared.adapters.sql.messages import parts_of
from shared.adapters.sql.sqlite.folder import DATABASE
from shared.adapters.threads import SystemThreads
from shared.delivery.messages.message_writer import encode_together
from shared.delivery.policy import EndReason
from shared.engine.ports import Queue
from shared.engine.ports.leases import Lease
from shared.engine.ports.settling import Answer, Ended, FollowUp, Settlement
from shared.engine.replaying.job import JobState, ReplayJob
from shared.errors import StorageUnavailable
from shared.http import HttpAnswer, HttpRequest
from shared.subscriptions.subscription import DeadLetterDestination
from shared.watched_clock import WatchedClock
from tests.builders import a_delivery, a_message, members
from tests.functional.deployment import Logged
from tests.functional.replaying.replays import CRM
from tests.integration.sql.test_app import subscribe

TOPICS = HttpRequest(
    method="GET",
    url="/status/topics",
    headers={"authorization": "Bearer k"},
    params={"what": "topics"},
)
SETTINGS = {
    "PUSHGRID_ADMIN_KEY": "k",
    "PUSHGRID_READER_KEY": "reader",
    "PUSHGRID_PUBLIC_URL": "https://events.example",
}
LOCAL = SETTINGS | {"PUSHGRID_LOCAL_SHORTCUTS": "true", "PUSHGRID_ALLOW_HTTP": "true"}
ACCOUNTS = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Storage/storageAccounts"
DEAD = DeadLetterDestination(container="dead")


@asynccontextmanager
async def served(
    folder: Path, time: FakeClock, environ: Mapping[str, str] = SETTINGS
) -> AsyncIterator[tuple[ServedApp, SqliteHome]]:
    threads = SystemThreads()
    threads.attach()
    clock = WatchedClock(time.now, time.monotonic)
    settings = read_server_settings(environ)
    home = SqliteHome(folder, settings, clock, threads)
    app = ServedApp(settings, home, clock, threads)
    await app.worker.open()
    try:
        yield app, home
    finally:
        await home.close()


def subscribe_to(app: ServedApp, topic: str, name: str, **properties: Any) -> None:
    destination = {"endpointType": "WebHook", "properties": {"endpointUrl": "http://127.0.0.1:9/"}}
    body = {"properties": {"destination": destination, **properties}}
    api = deployment_of(app, "https://events.example")
    api.put(subscription_path(topic, name), body, {"pushgrid-consent": "assumed"})


def measures(home: SqliteHome) -> dict[str, float]:
    return {each.name: each.value for each in home.store.measures()}


async def fail(home: SqliteHome, lease: Lease) -> None:
    """Have a message fail as often as it may."""
    home.store.database.write(
        lambda writing: writing.run("UPDATE messages SET receives = ?", MOST_FAILURES - 1)
    )
    await home.leases.give_back(lease)


def do_all(home: SqliteHome) -> None:
    for each in home.background:
        assert not each.call(), "it goes on"


def test_a_server_that_ends_begins_no_more_deliveries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is put while it finishes those under way is for the next start."""
    delivered: list[bytes] = []
    begun, finishing, go_on = asyncio.Event(), asyncio.Event(), asyncio.Event()

    class Watched(Deliveries):
        async def finish(self, seconds: float) -> int:
            finishing.set()
            return await super().finish(seconds)

    async def deliver(_: Worker, lease: Lease) -> None:
        delivered.append(lease.body)
        begun.set()
        await go_on.wait()

    monkeypatch.setattr(worker, "Deliveries", Watched)
    monkeypatch.setattr(Worker, "deliver", deliver)

    async def test() -> None:
        async with served(tmp_path / "data", FakeClock()) as (app, home):
            put = home.store.sender.put
            options = ServerOptions(data=tmp_path / "data", port=0)
            prepared = Prepared(options, SETTINGS, app.settings, None, bind(options.host, 0))
            beside = BesideTheApp(prepared.url, None)
            server = RunningServer(prepared, app, beside, print, ServiceManager(None))
            app.worker.begin()
            await put(Queue.DELIVERIES, "one")
            await begun.wait()
            front = HttpFront(server._asgi(), ConnectionLimits(8))
            ending = asyncio.create_task(server._end(front))
            await finishing.wait()
            await put(Queue.DELIVERIES, "two")
            for _ in range(9):
                await asyncio.sleep(0)
            go_on.set()
            await ending
            prepared.taken.close()

    asyncio.run(test())
    assert delivered == [b"one"]


def test_the_ends_of_a_message_that_nobody_can_handle_are_heard(tmp_path: Path) -> None:
    """Of what is open of it alone: an event whose delivery is settled has ended already."""

    async def test() -> tuple[list[Ended], Any]:
        heard: list[Ended] = []
        async with served(tmp_path / "data", FakeClock()) as (app, home):
            app.app.ended = heard.append
            leases, traits = home.store.leases, home.store.traits
            deliveries = [a_delivery(number) for number in range(2)]
            crm, erp = (a_message(deliveries, subscription=name) for name in ("crm", "erp"))
            ((_, text),) = encode_together([crm, erp], traits.message_size)
            await home.store.sender.put(Queue.DELIVERIES, text)
            (lease,) = await leases.claim(Queue.DELIVERIES, 1)
            settling = home.settling(lease, app.app.metrics)
            await settling.settle([Settlement(part=crm)], timedelta())
            await fail(home, lease)
            poison = DeadLetterDestination(container="poison")
            rows = "SELECT path FROM blobs WHERE container = 'poison'"
            ((path,),) = home.store.database.read(lambda reading: reading.rows(rows))
            record = await asyncio.to_thread(home.store.dead_letters.read, poison, path, 10_000)
            return heard, json.loads(record or b"")

    heard, record = asyncio.run(test())
    assert [each.key.subscription for each in heard] == ["erp", "erp"]
    assert {each.reason for each in heard} == {EndReason.POISON}
    assert len(record["events"]) == 2


def test_a_step_of_a_replay_that_nobody_can_handle_ends_its_job(tmp_path: Path) -> None:
    async def test() -> list[ReplayJob]:
        async with served(tmp_path / "data", FakeClock()) as (app, home):
            await asyncio.to_thread(subscribe, home.store)
            await asyncio.to_thread(home.store.dead_letters.write, DEAD, "A/1.json", b"[]")
            api = deployment_of(app, "https://events.example")
            await asyncio.to_thread(api.post, "replays", {"container": "dead", "to": CRM})
            (lease,) = await home.store.leases.claim(Queue.RETRIES, 1)
            await fail(home, lease)
            return [*await asyncio.to_thread(app.app.replays.list)]

    (job,) = asyncio.run(test())
    assert job.state is JobState.FAILED


@pytest.mark.parametrize("has_jumped", [False, True], ids=["settled", "a clock that has jumped"])
def test_dead_letters_go_after_their_time(tmp_path: Path, has_jumped: bool) -> None:  # noqa: FBT001
    """By a clock that is known to be right alone: else a wrong one would delete all."""
    time = FakeClock()
    pass_time: Callable[[timedelta], None] = time.jump if has_jumped else time.advance

    async def test() -> list[str]:
        async with served(tmp_path / "data", time) as (_, home):
            dead = home.store.dead_letters
            await asyncio.to_thread(dead.write, DEAD, "a/old.json", b"[]")
            await asyncio.to_thread(dead.write_poison, "a/poison.json", b"{}")
            pass_time(DEAD_LETTERS_KEPT_FOR)
            await asyncio.to_thread(dead.write, DEAD, "a/new.json", b"[]")
            pass_time(timedelta(hours=1))
            await asyncio.to_thread(do_all, home)
            poison = DeadLetterDestination(container="poison")
            return [each.path for place in (DEAD, poison) for each in dead.list(place, "a/").blobs]

    left = ["a/new.json", "a/old.json", "a/poison.json"] if has_jumped else ["a/new.json"]
    assert asyncio.run(test()) == left


def test_the_store_tells_what_waits_and_what_it_measures(tmp_path: Path) -> None:
    """Exactly, whatever was counted: the counts of a process that was killed are lost."""

    async def test() -> tuple[dict[str, float], dict[str, float], Any]:
        async with served(tmp_path / "data", FakeClock()) as (app, home):
            await asyncio.to_thread(subscribe, home.store)
            before = await asyncio.to_thread(measures, home)
            part = a_message([a_delivery(number) for number in range(3)], subscription="crm")
            ((_, text),) = encode_together([part], home.store.traits.message_size)
            await home.store.sender.put(Queue.RETRIES, text, timedelta(hours=1))
            after = await asyncio.to_thread(measures, home)
            answer = await asyncio.to_thread(app.app.status.run, TOPICS)
            assert not app.app.history.logs_successes
            return before, after, json.loads(answer.body)

    before, after, shown = asyncio.run(test())
    assert after["commits_total"] == before["commits_total"] + 1
    assert after["commit_seconds_total"] > before["commit_seconds_total"]
    assert after["wal_bytes"] > before["wal_bytes"]
    assert after["disk_free_bytes"] > after["bytes"] > 0
    assert after["checkpoints_total"] == 0
    assert set(shown["store"]) == set(after)
    assert shown["waiting"]["events"] == 3


@pytest.mark.parametrize("public_url", ["https://events.example", ""], ids=["named", "without"])
def test_blobs_are_announced_if_they_have_an_address(
    tmp_path: Path, public_url: str, logged: Logged
) -> None:
    """By a URL that this server answers; without one there is no notice, and the log says so."""
    environ = LOCAL | {"PUSHGRID_PUBLIC_URL": public_url}

    def announce(app: ServedApp) -> list[int]:
        subscribe_to(app, "system-pushgrid", "ops")
        blob = app.home.store.dead_letters.write(DEAD, "a/1.json", b"[]")
        topic = app.app.blob_notices.topic("")
        assert blob
        assert topic
        app.app.blob_notices.publish(topic, [blob])
        return [each.events for each in app.home.store.queues.unfinished()[0].values()]  # type: ignore[attr-defined]

    async def test() -> list[int]:
        async with served(tmp_path / "data", FakeClock(), environ) as (app, _):
            return await asyncio.to_thread(announce, app)

    assert asyncio.run(test()) == ([1] if public_url else [])
    left_out = [line["blobs"] for line in logged("notices.left_out")]
    assert left_out == ([] if public_url else [1])


def test_a_folder_that_has_lost_its_database_is_told_from_a_new_one(tmp_path: Path) -> None:
    folder = tmp_path / "data"

    async def is_new() -> bool:
        async with served(folder, FakeClock()) as (_, home):
            return home.is_new

    assert check_store(folder, None) is None
    assert [take_folder(folder), take_folder(folder)] == [True, False]
    assert [asyncio.run(is_new()), asyncio.run(is_new())] == [True, False]
    assert check_store(folder, None) is None
    kept = (folder / DATABASE).rename(tmp_path / "kept")
    assert f"pushgrid restore FILE --data {folder}" in (check_store(folder, None) or "")
    (folder / "backups/replaced-0").mkdir(parents=True)
    kept.rename(folder / "backups/replaced-0/next.db")
    assert check_store(folder, None) is None, "a killed restore is gone on with"
    assert not asyncio.run(is_new())


def test_an_account_that_is_named_no_more_is_told(tmp_path: Path) -> None:
    """By a check, by the status, and by the failure to write; while a server runs, a check ends."""
    folder, own = tmp_path / "data", LOCAL | {"PUSHGRID_OWN_ACCOUNT": "mine"}
    blob = {"resourceId": f"{ACCOUNTS}/mine", "blobContainerName": "dead"}
    dead = {"deadLetterDestination": {"endpointType": "StorageBlob", "properties": blob}}

    async def test(environ: Mapping[str, str]) -> Any:
        async with served(folder, FakeClock(), environ) as (app, home):
            api = deployment_of(app, "https://events.example")
            if environ is own:
                await asyncio.to_thread(api.put, "topics/orders", {"location": "local"})
                await asyncio.to_thread(partial(subscribe_to, app, "orders", "crm", **dead))
            with pytest.raises(CannotStart, match="Another server"):
                check_store(folder, app.settings)
            there = DeadLetterDestination(container="dead", account="mine")
            try:
                await asyncio.to_thread(home.store.dead_letters.write, there, "a.json", b"[]")
                text = ""
            except StorageUnavailable as error:
                text = error.message
            status = await asyncio.to_thread(app.app.status.run, TOPICS)
            kinds = [each["kind"] for each in json.loads(status.body)["troubles"]]
        return text, kinds, check_store(folder, app.settings)

    assert check_store(folder, None) is None
    assert asyncio.run(test(own)) == ("", [], None)
    text, kinds, found = asyncio.run(test(LOCAL))
    assert "The server's own is 'pushgrid': PUSHGRID_OWN_ACCOUNT names it" in text
    assert kinds == ["unknownAccount"]
    assert found
    assert "'mine'" in found
    assert "PUSHGRID_OWN_ACCOUNT" in found


def test_a_disk_that_is_almost_full_takes_no_events_and_goes_on_delivering(tmp_path: Path) -> None:
    async def test() -> tuple[list[int], int]:
        async with served(tmp_path / "data", FakeClock(), LOCAL) as (app, home):
            api = deployment_of(app, "https://events.example")
            await asyncio.to_thread(api.put, "topics/orders", {"location": "local"})
            await asyncio.to_thread(subscribe_to, app, "orders", "crm")
            key = (await asyncio.to_thread(api.post, "topics/orders/listKeys"))["key1"]
            event = members(topic="")
            request = HttpRequest(
                method="POST",
                url="https://events.example/topics/orders/api/events",
                headers={"aeg-sas-key": key},
                body=json.dumps([event]).encode(),
            )
            database, statuses = home.store.database, []
            for low_water in (0, 2**62, 0):
                database._low_water, database._looked_at = low_water, -9e9
                answer = await app.answer(request, "topics/orders/api/events")
                statuses.append(answer.status)
                if low_water:
                    (lease,) = await home.store.leases.claim(Queue.DELIVERIES, 1)
                    part, *_ = parts_of(lease.body)
                    again = replace(part, due=home.store._clock.now() + timedelta(hours=1))
                    settlement = Settlement(part=part, follow_ups=[FollowUp(again)])
                    settling = home.settling(lease, app.app.metrics)
                    (settled,) = await settling.settle([settlement], timedelta())
                    assert settled.answer is Answer.SETTLED
            waiting, _ = await asyncio.to_thread(home.store.queues.unfinished)
            return statuses, sum(each.events for each in waiting.values())

    assert asyncio.run(test()) == ([200, 503, 200], 2)


def test_the_address_of_a_dead_letter_has_it_for_whoever_has_the_admin_key(tmp_path: Path) -> None:
    path, body = "Orders/CRM/2026/1/1/0/a b.json", b'[{"id": 1}]'

    async def test() -> list[HttpAnswer]:
        async with served(tmp_path / "data", FakeClock()) as (app, home):
            blob = await asyncio.to_thread(home.store.dead_letters.write, DEAD, path, body)
            assert blob
            assert blob.url.startswith("https://events.example/blobs/dead/")
            at = unquote(urlsplit(blob.url).path).removeprefix("/")
            return [
                await app.answer(
                    HttpRequest(
                        method=method, url=blob.url, headers={"authorization": f"Bearer {key}"}
                    ),
                    asked,
                )
                for method in ("GET", "HEAD")
                for key, asked in [("k", at), ("reader", at), ("wrong", at), ("k", f"{at}.no")]
            ]

    found = asyncio.run(test())
    assert [each.status for each in found] == [200, 403, 401, 404] * 2
    assert found[0].body == body
