"""Servers on one PostgreSQL: both accept, both deliver, one may die."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import requests

from testbed.arm import Arm
from testbed.postgres import (
    DATABASE,
    ROLE,
    PostgresServer,
    pgbouncer,
    running_pgbouncer,
    running_postgres,
)
from testbed.subscriber import PATIENCE, Push, running_subscriber
from tests.commands import Command
from tests.e2e.publishing import ONE_EVENT, ids, post
from tests.e2e.test_serve import _OPEN, ROOT, Serve, configuration, run, write
from tests.host.running import until

ADMIN = "one-key-for-all-servers"


class OnPostgres(Serve):
    """A running `pushgrid serve --store …`, on a free port."""

    def __init__(self, folder: Path, *options: str, **environ: str) -> None:
        command = [sys.executable, "-m", "cli", "serve", "--unsafe-store", "--port", "0", *options]
        kept = {name: text for name, text in os.environ.items() if "PUSHGRID" not in name}
        own = {"PYTHONPATH": str(ROOT), "HOME": str(folder), **_OPEN, **environ}
        Command.__init__(self, command, folder, kept | own)

    @property
    def arm(self) -> Arm:
        return Arm(self.url, ADMIN)

    def metric(self, name: str) -> float:
        """A figure of the store, as for Prometheus."""
        headers = {"Authorization": f"Bearer {ADMIN}"}
        text = requests.get(f"{self.url}/status/metrics", headers=headers, timeout=60).text
        (found,) = re.findall(rf"^pushgrid_store_{name} (\S+)$", text, re.MULTILINE)
        return float(found)


@pytest.fixture
def store(postgres: PostgresServer) -> str:
    return postgres.url(postgres.new_database())


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Any]:
    with contextlib.ExitStack() as stack:

        def start(*options: str, **environ: str) -> OnPostgres:
            environ = {"PUSHGRID_ADMIN_KEY": ADMIN, **environ}
            return stack.enter_context(OnPostgres(tmp_path, *options, **environ))

        yield start


def two_servers(
    serve: Callable[..., OnPostgres], file: str, *options: str, **environ: str
) -> tuple[OnPostgres, OnPostgres]:
    """Start a server that applies a file, and then another one."""
    one = serve(*options, "--file", file, **environ)
    assert one.url
    one.logged("file.applied")
    two = serve(*options, **environ)
    assert two.url
    return one, two


@contextlib.contextmanager
def published_on(*servers: OnPostgres, threads: int = 1) -> Iterator[Mapping[OnPostgres, set[str]]]:
    """Publish events on servers until the block ends; give the ids that each has accepted."""
    accepted: dict[OnPostgres, set[str]] = {each: set() for each in servers}
    stop = threading.Event()
    key = servers[0].arm.key("orders")

    def publish(server: OnPostgres, first: int) -> None:
        for number in itertools.takewhile(lambda _: not stop.is_set(), itertools.count(first)):
            body = ONE_EVENT.replace(b'"1"', f'"{number}"'.encode())
            with contextlib.suppress(requests.RequestException):
                if post(server.url, "orders", key, body).status_code == 200:
                    accepted[server].add(str(number))

    publishers = [
        threading.Thread(target=publish, args=(server, number * 100_000))
        for number, server in enumerate(servers * threads)
    ]
    for each in publishers:
        each.start()
    try:
        yield accepted
    finally:
        stop.set()
        for each in publishers:
            each.join()


def test_two_servers_deliver_and_what_a_killed_one_had_in_hand_the_other_delivers(
    serve, store, tmp_path
):
    """Each event that a server has answered 200 is pushed, by whoever lives."""
    opened = threading.Event()

    def answer(_: Push) -> int:
        opened.wait(PATIENCE)
        return 200

    with running_subscriber(answer) as crm:
        file = write(tmp_path, configuration(crm=crm.url))
        one, two = two_servers(serve, file, "--store", store)
        with published_on(one, two) as accepted:
            until(lambda: len(accepted[one]) >= 100)
            one.process.send_signal(signal.SIGKILL)
        of_one = set(accepted[one])
        assert not of_one <= ids(crm.pushes)  # it had more in hand than it pushed at a time
        opened.set()
        assert crm.wait_for(lambda pushes: of_one | accepted[two] <= ids(pushes), 2 * PATIENCE)
        assert two.probes == (200, 200)
        assert two.logged("process.judged_dead")
        assert two.metric("takeovers_total") == 1
        assert two.metric("lease_age_seconds") < 30


def test_what_is_published_on_one_server_after_the_other_has_answered_201_is_matched(
    serve, store, tmp_path
):
    """Though that server has read its topics and subscriptions just before."""
    with running_subscriber() as crm, running_subscriber() as erp:
        file = write(tmp_path, configuration(crm=crm.url))
        one, two = two_servers(serve, file, "--store", store, PUSHGRID_CACHE_SECONDS="600")
        key = one.arm.key("orders")
        assert post(two.url, "orders", key, ONE_EVENT).status_code == 200
        one.arm.create_subscription("orders", "erp", erp.url)
        assert post(two.url, "orders", key, ONE_EVENT.replace(b'"1"', b'"2"')).status_code == 200
        assert erp.wait_for(lambda pushes: ids(pushes) == {"2"}, 20)


def test_what_a_server_that_ends_has_not_begun_to_push_another_pushes_at_once(
    serve, store, tmp_path
):
    """While the first one still waits for the answers to what it has begun."""
    is_ending, opened = threading.Event(), threading.Event()

    def answer(_: Push) -> int:
        if not is_ending.is_set():
            opened.wait(PATIENCE)
        return 200

    with running_subscriber(answer) as crm:
        file = write(tmp_path, configuration(crm=crm.url))
        one, two = two_servers(serve, file, "--store", store)
        key = one.arm.key("orders")
        for number in range(60):
            body = ONE_EVENT.replace(b'"1"', f'"{number}"'.encode())
            assert post(one.url, "orders", key, body).status_code == 200
        all_of_it = set(map(str, range(60)))
        assert crm.wait_for(lambda pushes: len(pushes) >= 10)
        begun = ids(crm.pushes)
        is_ending.set()
        one.process.send_signal(signal.SIGTERM)
        one.logged("server.stopping")
        assert crm.wait_for(lambda pushes: all_of_it <= ids(pushes))
        assert one.process.poll() is None
        assert len(begun) < len(all_of_it)
        opened.set()
        assert one.code() == 0
        assert not [each for each in two.lines if "process.judged_dead" in each]


def test_a_restored_copy_is_held_before_its_first_delivery(serve, store, tmp_path):
    """What is published is kept, and pushed once an operator resumes."""
    with running_subscriber() as crm:
        first = serve("--store", store, "--file", write(tmp_path, configuration(crm=crm.url)))
        assert first.url
        first.logged("file.applied")
        key = first.arm.key("orders")
        first.end()
        held = serve("--store", store, "--hold")
        assert held.logged("server.held")["subscriptions"] == 1
        assert post(held.url, "orders", key, ONE_EVENT).status_code == 200
        held.end()
        assert not crm.pushes
        again = serve("--store", store)
        assert again.url
        again.arm.act("orders", "crm", "resume")
        assert crm.wait_for(lambda pushes: ids(pushes) == {"1"})


@pytest.mark.skipif(not pgbouncer(), reason="pgbouncer is not installed")
def test_servers_behind_pgbouncer_prepare_nothing_and_share_its_connections(
    serve, postgres, tmp_path
):
    """In transaction mode, each of their transactions gets another session."""
    name = postgres.new_database()
    with running_pgbouncer(postgres) as pool, running_subscriber() as crm:
        file = write(tmp_path, configuration(crm=crm.url))
        one, two = two_servers(serve, file, "--store", f"{pool}{name}", "--pooled")
        with published_on(one, two, threads=2) as accepted:
            until(lambda: min(map(len, accepted.values())) >= 50)
        of_all = accepted[one] | accepted[two]
        assert crm.wait_for(lambda pushes: of_all <= ids(pushes))
        assert not [
            line for server in accepted for line in server.lines if "storage.failed" in line
        ]
        sessions = f"SELECT COUNT(*) FROM pg_stat_activity WHERE datname = '{name}'"  # noqa: S608
        assert postgres.do(sessions) <= [(3,)]
        locks = "SELECT COUNT(*) FROM pg_locks WHERE locktype = 'advisory'"
        one.end()
        two.end()
        assert postgres.do(locks) == [(0,)]


def test_a_move_from_a_folder_to_a_database_and_back_is_noticed_by_nobody(serve, store, tmp_path):
    """Publishers keep their keys, endpoints are not asked again, and dead letters come along."""
    path = "dead/Orders/CRM/2026/1/1/0/1.json"
    content = b'[{"id": "7", "deadLetterReason": "TimeToLiveExceeded"}]'
    with contextlib.ExitStack() as servers, running_subscriber() as crm:
        before = servers.enter_context(
            Serve(tmp_path, "--file", write(tmp_path, configuration(crm=crm.url)))
        )
        key = before.arm.key("orders")
        moved = moves(tmp_path, before)
        before.end()
        dead = tmp_path / "letters" / path
        dead.parent.mkdir(parents=True)
        dead.write_bytes(content)
        run("import", str(moved), "--store", store, folder=tmp_path)
        run("import", "letters", "--store", store, folder=tmp_path)
        one, two = serve("--store", store), serve("--store", store)
        assert (one.arm.key("orders"), two.arm.key("orders")) == (key, key)
        assert post(two.url, "orders", key, ONE_EVENT).status_code == 200
        assert crm.wait_for(lambda pushes: ids(pushes) == {"1"})
        moved = moves(tmp_path / "back", two)
        run("dead-letters", "export", "copy", "--store", store, folder=tmp_path)
        one.end()
        two.end()
        data = tmp_path / "back" / "data"
        run("import", str(moved), "--data", str(data), folder=tmp_path)
        run("import", "copy", "--data", str(data), folder=tmp_path)
        after = servers.enter_context(Serve(tmp_path / "back"))
        assert post(after.url, "orders", key, ONE_EVENT.replace(b'"1"', b'"2"')).status_code == 200
        assert crm.wait_for(lambda pushes: ids(pushes) == {"1", "2"})
        assert len(crm.handshakes) == 1
        blob = requests.get(
            f"{after.url}/blobs/{path}",
            headers={"Authorization": f"Bearer {after.key}"},
            timeout=60,
        )
        assert blob.content == content


def moves(folder: Path, server: Serve) -> Path:
    """Export what a server has; return the file."""
    folder.mkdir(exist_ok=True)
    file, key = folder / "moved.json", server.arm.admin_key
    run("export", str(file), "--url", server.url, "--admin-key", key, folder=folder)
    return file


@pytest.mark.parametrize("fault", ["argument", "password", "key", "checked key", "folder"])
def test_what_is_wrong_ends_the_start_with_2_and_shows_no_password(
    serve, store, postgres, tmp_path, fault
):
    wrong = f"postgresql://{ROLE}:wrong-secret@127.0.0.1:{postgres.port}/{DATABASE}"
    options, environ, said = {
        "argument": (["--store", wrong], {}, "--store has a password"),
        "password": ([], {"PUSHGRID_STORE": wrong}, "role or password is wrong"),
        "key": (["--store", store], {"PUSHGRID_ADMIN_KEY": ""}, "PUSHGRID_ADMIN_KEY is not set"),
        "checked key": (
            ["--store", store, "--check"],
            {"PUSHGRID_ADMIN_KEY": ""},
            "refused  settings: PUSHGRID_ADMIN_KEY is not set",
        ),
        "folder": (["--store", store, "--data", str(tmp_path / "data")], {}, "name exactly one of"),
    }[fault]
    server = serve(*options, **environ)
    assert server.code() == 2
    assert server.see(said)
    assert not [line for line in server.lines if "wrong-secret" in line]


def test_the_database_is_killed_under_load_and_the_servers_go_on(serve, tmp_path):
    """What was answered 200 is pushed; the servers are not ready meanwhile, and end none."""
    with running_postgres() as database, running_subscriber() as crm:
        file = write(tmp_path, configuration(crm=crm.url))
        one, two = two_servers(serve, file, "--store", database.url())
        with published_on(one, two) as accepted:
            for _ in range(3):
                wanted = {server: len(found) + 20 for server, found in accepted.items()}
                until(lambda w=wanted: all(len(accepted[each]) >= w[each] for each in accepted))
                database.stop(signal.SIGKILL)
                database.start()
        of_all = accepted[one] | accepted[two]
        assert crm.wait_for(lambda pushes: of_all <= ids(pushes))
        # Each is ready once it has stored something, such as a claim.
        until(lambda: (one.probes, two.probes) == ((200, 200), (200, 200)))


def test_a_password_that_is_changed_meanwhile_is_named_and_never_shown(serve, postgres):
    """By readiness, with what to do; neither by log, status nor the list of processes."""
    role = postgres.new_database()
    secret = f"secret-{role}"
    postgres.do(f"CREATE ROLE {role} LOGIN PASSWORD '{secret}'")
    postgres.do(f"ALTER DATABASE {role} OWNER TO {role}")
    url = f"postgresql://{role}:{secret}@127.0.0.1:{postgres.port}/{role}"
    server = serve(PUSHGRID_STORE=url)
    assert server.url
    postgres.do(f"ALTER ROLE {role} PASSWORD 'another'")
    postgres.end_sessions(role)
    until(lambda: server.probes[1] == 503)
    shown = [requests.get(f"{server.url}/readyz", timeout=PATIENCE).text]
    assert "role or password is wrong" in shown[0]
    assert "PUSHGRID_STORE_FILE" in shown[0]
    headers = {"Authorization": f"Bearer {ADMIN}"}
    shown += [
        requests.get(f"{server.url}/status/{each}", headers=headers, timeout=60).text
        for each in ("health", "metrics", "topics")
    ]
    shown.append(Path(f"/proc/{server.process.pid}/cmdline").read_text())
    postgres.do(f"ALTER ROLE {role} PASSWORD '{secret}'")
    until(lambda: server.probes[1] == 200)
    assert not [each for each in (*shown, *server.lines) if secret in each]
