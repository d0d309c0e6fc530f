"""`pushgrid serve` as a process: from its first line to its exit code."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sqlite3
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import requests
import trustme

from cli.deployment import DEFAULT_SCOPE
from server.data_folder import KEY, MARK, take_folder
from shared.adapters.sql.sqlite.database import SqliteDatabase
from shared.adapters.sql.sqlite.folder import BACKUPS, DATABASE, Folder
from shared.adapters.threads import SystemThreads
from shared.clock import SystemClock
from testbed.arm import Arm
from testbed.subscriber import PATIENCE, Push, Reply, consents, running_subscriber
from tests.commands import Command, runner
from tests.dockerfiles import stages
from tests.e2e.publishing import ONE_EVENT, an_event, ids, post, send
from tests.host.running import until

ROOT = Path(__file__).parents[2]
_OPEN = {"PUSHGRID_ALLOW_HTTP": "true", "PUSHGRID_ALLOWED_NETWORKS": "127.0.0.0/8"}


class Serve(Command):
    """A running `pushgrid serve` on the folder ``data`` in *folder*, and on a free port."""

    def __init__(self, folder: Path, *options: str, **environ: str) -> None:
        self.data = folder / "data"
        command = [sys.executable, "-m", "cli", "serve", "--unsafe-folder"]
        given = ["--data", str(self.data), "--port", "0", *options]
        kept = {name: text for name, text in os.environ.items() if "PUSHGRID" not in name}
        own = {"PYTHONPATH": str(ROOT), "HOME": str(folder), **_OPEN, **environ}
        super().__init__([*command, *given], folder, kept | own)

    @property
    def url(self) -> str:
        return self.see("ready http").split()[1]

    @property
    def key(self) -> str:
        return (self.data / KEY).read_text().strip()

    @property
    def arm(self) -> Arm:
        return Arm(self.url, self.key)

    @property
    def probes(self) -> tuple[int, int]:
        """The statuses of liveness and readiness."""
        found = (requests.get(f"{self.url}/{each}", timeout=60) for each in ("healthz", "readyz"))
        alive, ready = (each.status_code for each in found)
        return alive, ready

    def code(self) -> int:
        """Wait for its end; return the exit code."""
        return self.process.wait(PATIENCE)

    def logged(self, event: str) -> dict[str, Any]:
        """Wait for the log line of *event*; return it."""
        found: dict[str, Any] = json.loads(self.see(f'"event":"{event}"'))
        return found


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Any]:
    with contextlib.ExitStack() as stack:

        def start(*options: str, folder: Path = tmp_path, **environ: str) -> Serve:
            return stack.enter_context(Serve(folder, *options, **environ))

        yield start


def configuration(**endpoints: str) -> dict[str, Any]:
    """Return a file with the topic ``orders`` and a subscription for each endpoint's URL."""
    subscriptions = {
        name: {"properties": {"destination": _webhook(url)}} for name, url in endpoints.items()
    }
    return {"topics": {"orders": {"eventSubscriptions": subscriptions}}}


def _webhook(url: str) -> dict[str, Any]:
    return {"endpointType": "WebHook", "properties": {"endpointUrl": url}}


def write(folder: Path, document: Mapping[str, Any]) -> str:
    path = folder / "pushgrid.json"
    path.write_text(json.dumps(document))
    return str(path)


def test_a_new_folder_serves_a_file_and_delivers_what_is_published(serve, tmp_path):
    with running_subscriber() as crm:
        server = serve("--file", write(tmp_path, configuration(crm=crm.url)))
        event = an_event(1)
        send(server.url, "orders", server.arm.key("orders"), [event])

        assert crm.wait_for(lambda pushes: ids(pushes) == {event.id})
        assert server.probes == (200, 200)
        assert requests.get(f"{server.url}/console", timeout=60).status_code == 200
        assert requests.get(f"{server.url}/status/health", timeout=60).json()["storage"]
        metrics = requests.get(
            f"{server.url}/status/metrics",
            headers={"Authorization": f"Bearer {server.key}"},
            timeout=60,
        )
        assert "pushgrid_storage_up" in metrics.text

    server.process.send_signal(signal.SIGTERM)
    assert server.code() == 0
    assert oct(server.data.stat().st_mode)[-3:] == "700"
    assert {oct(each.stat().st_mode)[-3:] for each in server.data.iterdir()} == {"600"}
    key = server.key
    assert [line for line in server.lines if key in line] == []
    logged = [json.loads(line) for line in server.lines if not line.startswith("ready ")]
    assert all(each.keys() >= {"time", "level"} for each in logged)


def test_a_second_start_has_the_same_key_and_a_set_key_replaces_it(serve, tmp_path):
    first = serve()
    key = first.url and first.key
    first.end()
    (first.data / KEY).chmod(0o644)

    again = serve()
    assert again.url
    assert again.key == key
    assert oct((again.data / KEY).stat().st_mode)[-3:] == "600"
    again.end()

    (secret := tmp_path / "secret").write_text("given-by-the-operator")
    given = serve(PUSHGRID_ADMIN_KEY_FILE=str(secret))
    headers = {"Authorization": f"Bearer {key}"}
    status = requests.get(f"{given.url}/status/topics", headers=headers, timeout=60).status_code
    assert status == 401
    given.end()
    assert not (given.data / KEY).exists()
    assert [line for line in given.lines if "setting.unknown" in line] == []


def test_an_endpoint_that_refuses_is_logged_and_asked_again_and_stops_nothing(serve, tmp_path):
    refused = threading.Event()

    def consent(asked: Push) -> Reply:
        if refused.is_set():
            return consents(asked)
        return Reply(403)

    with running_subscriber() as crm, running_subscriber(consent=consent) as erp:
        server = serve("--file", write(tmp_path, configuration(crm=crm.url, erp=erp.url)))
        assert "erp" in server.logged("file.refused")["detail"]
        event = an_event(1)
        send(server.url, "orders", server.arm.key("orders"), [event])
        assert crm.wait_for(lambda pushes: ids(pushes) == {event.id})

        refused.set()
        server.process.send_signal(signal.SIGHUP)
        assert server.logged("file.applied")["changed"] == 1


def test_a_file_is_read_again_on_sighup_and_only_pruning_deletes(serve, tmp_path):
    with running_subscriber() as crm:
        path = write(tmp_path, configuration(crm=crm.url, second=crm.url))
        server = serve("--file", path)
        server.logged("file.applied")

        write(tmp_path, configuration(crm=crm.url))
        server.process.send_signal(signal.SIGHUP)
        assert "orders/second" in server.logged("file.unnamed")["resource"]
        Path(path).write_text("{")
        server.process.send_signal(signal.SIGHUP)
        assert "pushgrid.json" in server.logged("file.faulty")["detail"]
        names = [each["name"] for each in subscriptions(server)]
        assert sorted(names) == ["crm", "second"]


def test_pruning_deletes_where_no_events_wait(serve, tmp_path):
    with running_subscriber() as crm, running_subscriber(lambda _: 503) as erp:
        endpoints = {"crm": crm.url, "erp": erp.url, "idle": crm.url}
        server = serve("--prune", "--file", write(tmp_path, configuration(**endpoints)))
        server.logged("file.applied")
        send(server.url, "orders", server.arm.key("orders"), [an_event(1)])
        assert erp.wait_for(bool)
        assert crm.wait_for(lambda pushes: len(pushes) == 2)

        write(tmp_path, configuration(crm=crm.url))
        server.process.send_signal(signal.SIGHUP)
        server.see("file.unnamed", "orders/erp", "events wait")
        until(lambda: {each["name"] for each in subscriptions(server)} == {"crm", "erp"})


def subscriptions(server: Serve) -> list[dict[str, Any]]:
    headers = {"Authorization": f"Bearer {server.key}"}
    found = requests.get(f"{server.url}/status/topics", headers=headers, timeout=60).json()
    return [each for topic in found["value"] for each in topic["subscriptions"]]


def test_readiness_fails_first_and_what_is_under_way_is_finished(serve, tmp_path):
    may_answer = threading.Event()

    def answer(_: Push) -> int:
        may_answer.wait(PATIENCE)
        return 200

    with running_subscriber(answer) as slow:
        server = serve("--file", write(tmp_path, configuration(slow=slow.url)))
        key = server.arm.key("orders")
        server.logged("file.applied")
        send(server.url, "orders", key, [an_event(1)])
        assert slow.wait_for(bool)

        server.process.send_signal(signal.SIGTERM)
        assert server.logged("server.stopping")["messages"] == 1
        assert server.probes == (200, 503)
        assert requests.get(f"{server.url}/readyz", timeout=60).text == "stopping\n"
        assert post(server.url, "orders", key, ONE_EVENT).status_code == 200

        may_answer.set()
        assert server.code() == 0
        assert server.logged("server.stopped")["unfinished"] == 0
        assert len(slow.pushes) == 1


def test_a_second_signal_ends_it_at_once(serve, tmp_path):
    may_answer = threading.Event()

    def answer(_: Push) -> int:
        may_answer.wait(PATIENCE)
        return 200

    with running_subscriber(answer) as slow:
        server = serve("--file", write(tmp_path, configuration(slow=slow.url)))
        server.logged("file.applied")
        send(server.url, "orders", server.arm.key("orders"), [an_event(1)])
        assert slow.wait_for(bool)

        server.process.send_signal(signal.SIGTERM)
        server.logged("server.stopping")
        server.process.send_signal(signal.SIGTERM)
        assert server.code() == 128 + signal.SIGTERM
        may_answer.set()


def test_what_was_answered_survives_a_kill_and_a_restored_copy_is_held(serve, tmp_path):
    event = an_event(1)
    with running_subscriber(lambda _: 503) as down:
        path = write(tmp_path, configuration(crm=down.url))
        first = serve("--file", path, PUSHGRID_TIME_SCALE="100")
        first.logged("file.applied")
        send(first.url, "orders", first.arm.key("orders"), [event])
        assert down.wait_for(bool)
        port = int(down.url.rpartition(":")[2].partition("/")[0])
        first.process.kill()
        first.end()
    with running_subscriber(port=port) as crm:
        held = serve("--hold", PUSHGRID_TIME_SCALE="100")
        assert held.logged("server.held")["subscriptions"] == 1
        send(held.url, "orders", held.arm.key("orders"), [an_event(2)])
        assert [each["paused"] is None for each in subscriptions(held)] == [False]
        held.end()
        assert crm.pushes == []

        again = serve(PUSHGRID_TIME_SCALE="100")
        resume(again)
        assert crm.wait_for(lambda pushes: len(ids(pushes)) == 2)
        assert event.id in ids(crm.pushes)


def test_a_database_that_has_vanished_is_told(serve):
    first = serve()
    first.see("ready http")
    first.end()
    for each in first.data.glob(f"{DATABASE}*"):
        each.unlink()
    second = serve()

    assert f"pushgrid restore FILE --data {second.data}" in second.logged("store.new")["detail"]
    assert not [line for line in first.lines if "store.new" in line]


def resume(server: Serve) -> None:
    (subscription,) = subscriptions(server)
    requests.post(
        f"{server.url}{subscription['id']}/resume?api-version=2025-02-15",
        headers={"Authorization": f"Bearer {server.key}"},
        timeout=60,
    ).raise_for_status()


def test_the_certificate_is_read_again_and_a_command_says_what_makes_it_trusted(
    serve, tmp_path, monkeypatch, capsys
):
    run = runner(monkeypatch, capsys)
    authority = trustme.CA()
    bundle = tmp_path / "authority.pem"
    authority.cert_pem.write_to_path(bundle)
    past = datetime(2020, 1, 1, tzinfo=UTC)
    first = authority.issue_cert("127.0.0.1", not_before=past, not_after=past + timedelta(days=1))
    soon = datetime.now(UTC) + timedelta(days=9)
    second = authority.issue_cert("127.0.0.1", not_after=soon)
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"

    def has(one: trustme.LeafCert) -> bool:
        port = int(server.url.rpartition(":")[2])
        return (
            one.cert_chain_pems[0].bytes()
            == ssl.get_server_certificate(("127.0.0.1", port)).encode()
        )

    first.cert_chain_pems[0].write_to_path(certificate)
    first.private_key_pem.write_to_path(key)
    server = serve("--tls-cert", str(certificate), "--tls-key", str(key))
    assert server.url.startswith("https://")
    assert "has expired" in server.logged("tls.doubtful")["detail"]
    assert has(first)

    second.cert_chain_pems[0].write_to_path(certificate)
    server.process.send_signal(signal.SIGHUP)
    assert "not that of the certificate" in server.logged("tls.not_reloaded")["detail"]
    assert has(first)
    second.private_key_pem.write_to_path(key)
    server.process.send_signal(signal.SIGHUP)
    server.logged("tls.reloaded")
    assert has(second)
    server.see('"event":"tls.doubtful"', "expires on")

    listing = ("topic", "list", "--url", server.url, "--admin-key", server.key)
    refused = run(*listing)
    assert (refused.code, "REQUESTS_CA_BUNDLE" in refused.err) == (2, True)
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(bundle))
    assert run(*listing).code == 0


@pytest.mark.parametrize("is_tls", [False, True])
def test_the_images_health_check_passes_with_and_without_tls(serve, tmp_path, is_tls):
    issued = trustme.CA().issue_cert("events.example.com")
    certificate = tmp_path / "cert.pem"
    issued.private_key_and_cert_chain_pem.write_to_path(certificate)
    server = serve(*(["--tls-cert", str(certificate)] if is_tls else []))
    port = server.url.rpartition(":")[2]
    _, option, code = stages(ROOT / "docker/serve.Dockerfile")[-1].arguments("HEALTHCHECK")

    def check(at: str) -> int:
        command = [sys.executable, option, code.replace("7071", at)]
        return subprocess.run(command, capture_output=True, check=False).returncode

    assert check(port) == 0
    server.end()
    assert check(port) == 1


def test_a_folder_has_one_server(serve):
    first = serve()
    assert first.url
    second = serve()

    assert second.code() == 2
    second.end()
    assert "Another server" in second.lines[-1]


def test_the_service_manager_hears_of_each_state(serve, tmp_path):
    told = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.settimeout(PATIENCE)
        manager.bind(str(told))
        server = serve(NOTIFY_SOCKET=str(told))
        assert manager.recv(100) == b"READY=1"
        assert server.url

        server.process.send_signal(signal.SIGHUP)
        assert manager.recv(100).startswith(b"RELOADING=1\nMONOTONIC_USEC=")
        assert manager.recv(100) == b"READY=1"

        server.process.send_signal(signal.SIGTERM)
        assert manager.recv(100) == b"STOPPING=1"


@pytest.mark.parametrize("closed", [">&-", ">&- 2>&-"])
def test_a_caller_may_close_what_nobody_reads(tmp_path, closed):
    """As scripts do that leave a server behind."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.settimeout(PATIENCE)
        manager.bind(str(tmp_path / "notify"))
        command = (
            f"exec '{sys.executable}' -m cli serve --unsafe-folder --port 0 --data data {closed}"
        )
        environ = {"PYTHONPATH": str(ROOT), "NOTIFY_SOCKET": str(tmp_path / "notify")}
        server = subprocess.Popen(["/bin/sh", "-c", command], cwd=tmp_path, env=environ)
        try:
            assert manager.recv(100) == b"READY=1"
            server.terminate()
            assert server.wait(PATIENCE) == 0
        finally:
            server.kill()


def test_an_end_while_a_file_is_applied_is_no_fault_of_the_file(serve, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as hanging:
        url = f"http://127.0.0.1:{hanging.getsockname()[1]}/"
        server = serve("--file", write(tmp_path, configuration(crm=url)))
        server.logged("handshake.asked")
        server.process.send_signal(signal.SIGTERM)
        assert server.code() == 0
    server.end()
    assert [each for each in server.lines if "file.refused" in each] == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--host", "::"], ["--host ::", "--tls-cert", "--behind-proxy"]),
        (["--host", "192.0.2.1", "--behind-proxy", "10.0.0.0/8"], ["192.0.2.1", "address of this"]),
        (["--tls-cert", "missing.pem"], ["missing.pem", "can't be read"]),
        (["--file", "missing.json"], ["missing.json"]),
        (["--prune"], ["--prune needs --file"]),
        (["--behind-proxy", "10.0.0.1/8"], ["bits set outside the prefix"]),
        (["--host", "example.org"], ["is not an address"]),
    ],
)
def test_bad_input_is_a_sentence_and_exit_code_2_before_anything_starts(
    serve, tmp_path, options, said
):
    server = serve(*options)

    assert server.code() == 2
    server.end()
    text = " ".join(server.lines)
    assert all(each in text for each in said), text
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("options", [[], ["--check"]])
def test_a_file_that_the_server_can_not_apply_ends_the_start(serve, tmp_path, options):
    path = write(tmp_path, configuration(crm="https://10.0.0.5/"))
    server = serve("--file", path, *options, PUSHGRID_ALLOWED_NETWORKS="")

    assert server.code() == 2
    server.end()
    (line,) = [each for each in server.lines if "PUSHGRID_ALLOWED_NETWORKS" in each]
    assert f"{path}:1: topics.orders.eventSubscriptions.crm: " in line
    assert not server.data.exists()


def test_a_folder_of_somebody_else_is_refused(serve, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data/thesis.txt").write_text("mine")
    server = serve()

    assert server.code() == 2
    server.end()
    assert "thesis.txt" in server.lines[-1]
    assert [each.name for each in (tmp_path / "data").iterdir()] == ["thesis.txt"]


@pytest.mark.parametrize("options", [[], ["--check"]])
@pytest.mark.parametrize("name", ["pushgrid.db", "lock", "admin-key"])
def test_a_folder_with_a_link_is_refused(serve, tmp_path, name, options):
    (tmp_path / "data").mkdir()
    (tmp_path / "data/pushgrid.txt").touch()
    (tmp_path / "data" / name).symlink_to(tmp_path / "elsewhere")
    server = serve(*options)

    assert server.code() == 2
    server.end()
    assert any(f"has symbolic links ({name})" in each for each in server.lines)
    assert not (tmp_path / "elsewhere").exists()


_DIES = """
import os, sys
from pathlib import Path
from cli.serving.beside import BesideTheApp
from server.options import ServerOptions
from server.process import prepare, serve
from server.sqlite_home import SqliteHome

homes = []

def make(*given):
    homes.append(SqliteHome(Path(sys.argv[1]), *given))
    return homes[0]

def die(url):
    connection = homes[0].store.database._connection
    connection.dead = "the disk is broken"
    connection.died(connection.dead)

given = prepare(ServerOptions(data=Path(sys.argv[1]), port=0, is_unsafe_folder_allowed=True), {})
sys.exit(serve(given, make, BesideTheApp(given.url, None, hold=False), die))
"""


def test_a_store_that_can_not_go_on_ends_the_server_with_1(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", _DIES, str(tmp_path / "data")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 1, done.stderr
    assert '"event":"server.broken","detail":"the disk is broken"' in done.stderr


def test_the_data_of_a_newer_version_are_left_as_they_are(serve, tmp_path):
    """Also by `--check`, which says the same."""
    data = tmp_path / "data"
    take_folder(data)
    database = SqliteDatabase(Folder(data), SystemClock(), SystemThreads())
    newer = "INSERT INTO migrations (number, oldest, program) VALUES (99, 99, '9.9')"
    database.write(lambda writing: writing.run(newer))
    database.close()
    before = (data / DATABASE).read_bytes()

    for options in ([], ["--check"]):
        server = serve(*options)
        assert server.code() == 2
        server.end()
        assert "it takes Pushgrid 9.9 or newer (schema 99)" in " ".join(server.lines)
    assert (data / DATABASE).read_bytes() == before
    assert not (data / BACKUPS).exists()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("DROP TABLE documents", "no such table: documents. Check the disk, or restore a backup."),
        ("DELETE FROM migrations", "tables without their rows, as a copy of the schema alone has."),
    ],
)
def test_data_that_can_t_be_read_are_refused_by_a_sentence(serve, tmp_path, change, said):
    data = tmp_path / "data"
    take_folder(data)
    SqliteDatabase(Folder(data), SystemClock(), SystemThreads()).close()
    with contextlib.closing(sqlite3.connect(data / DATABASE)) as database, database:
        database.execute(change)

    server = serve()
    assert server.code() == 2
    server.end()
    assert said in server.lines[-1]
    assert "Traceback" not in "".join(server.lines)


def test_a_port_in_use_is_refused(serve, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        server = serve("--port", str(port))
        assert server.code() == 2
    server.end()
    assert f"Port {port}" in server.lines[-1]
    assert not (tmp_path / "data" / MARK).exists()


def test_wrong_settings_are_told_with_the_name_of_each(serve):
    server = serve(PUSHGRID_ALLOW_HTTP="maybe", PUSHGRID_ADMIN_KEY_FILE="/nowhere")

    assert server.code() == 2
    server.end()
    assert "PUSHGRID_ADMIN_KEY_FILE: /nowhere can't be read" in server.lines[-1]


def test_a_forgotten_name_of_the_own_account_is_logged(serve, tmp_path):
    document = configuration(crm="http://127.0.0.1:9/")
    crm = document["topics"]["orders"]["eventSubscriptions"]["crm"]
    account = f"{DEFAULT_SCOPE}/providers/Microsoft.Storage/storageAccounts/mine"
    blob = {"resourceId": account, "blobContainerName": "dead"}
    crm["properties"]["deadLetterDestination"] = {"endpointType": "StorageBlob", "properties": blob}
    crm["consent"] = "assumed"
    settings = {"PUSHGRID_OWN_ACCOUNT": "mine", "PUSHGRID_LOCAL_SHORTCUTS": "true"}
    first = serve("--file", write(tmp_path, document), **settings)
    first.logged("file.applied")
    first.end()

    told = serve().logged("account.unknown")

    assert told["account"] == "mine"
    assert "PUSHGRID_OWN_ACCOUNT" in told["detail"]


def run(*arguments: str, folder: Path, codes: Sequence[int] = (0,)) -> str:
    """Run a command to its end, which is one of *codes*; return what it printed."""
    own = {"PYTHONPATH": str(ROOT), "HOME": str(folder), "PATH": os.environ["PATH"], **_OPEN}
    done = subprocess.run(
        [sys.executable, "-m", "cli", *arguments],
        cwd=folder,
        env=own,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in codes, done.stderr
    return done.stdout


def test_a_move_to_another_home_is_noticed_by_nobody(serve, tmp_path):
    """Publishers keep their key, endpoints their URL and secrets, and are not asked again."""
    copy, other = tmp_path / "moved.json", tmp_path / "other"
    other.mkdir()
    with running_subscriber() as crm:
        document = configuration(crm=f"{crm.url}?code=secret")
        destination = document["topics"]["orders"]["eventSubscriptions"]["crm"]["properties"]
        destination["destination"]["properties"]["deliveryAttributeMappings"] = [
            {
                "name": "X-Token",
                "type": "Static",
                "properties": {"value": "hidden", "isSecret": True},
            }
        ]
        document["namespaces"] = {"shop": {"topics": {"payments": {}}}}
        first = serve("--file", write(tmp_path, document))
        key = first.arm.key("orders")
        told = run(
            *("export", str(copy), "--url", first.url, "--admin-key", first.key), folder=tmp_path
        )
        assert "keys" in told
        assert oct(copy.stat().st_mode)[-3:] == "600"
        first.end()
        asked = len(crm.handshakes)

        run("import", str(copy), "--data", str(other / "data"), folder=tmp_path)
        second = serve(folder=other)
        event = an_event(1)
        send(second.url, "orders", key, [event])

        assert crm.wait_for(lambda pushes: ids(pushes) == {event.id})
        (push,) = crm.pushes
        assert push.headers["x-token"] == "hidden"
        assert "code=secret" in push.path
        assert len(crm.handshakes) == asked
        assert second.arm.key("orders") == key


def test_its_own_dead_letters_are_listed_shown_exported_and_replayed(serve, tmp_path):
    account = f"{DEFAULT_SCOPE}/providers/Microsoft.Storage/storageAccounts/pushgrid"
    is_down = threading.Event()
    is_down.set()
    with running_subscriber(lambda _: 400 if is_down.is_set() else 200) as crm:
        document = configuration(crm=crm.url)
        properties = document["topics"]["orders"]["eventSubscriptions"]["crm"]["properties"]
        properties["deadLetterDestination"] = {
            "endpointType": "StorageBlob",
            "properties": {"resourceId": account, "blobContainerName": "dead"},
        }
        server = serve("--file", write(tmp_path, document), PUSHGRID_TIME_SCALE="1000")
        event = an_event(1)
        send(server.url, "orders", server.arm.key("orders"), [event])
        called = "--url", server.url, "--admin-key", server.key
        listed: list[Any] = []

        def is_written() -> bool:
            command = "dead-letters", "list", "--json", *called
            listed[:] = json.loads(run(*command, folder=tmp_path, codes=(0, 1)))
            return bool(listed)

        until(is_written, PATIENCE)
        (blob,) = listed
        shown = json.loads(
            run("dead-letters", "show", blob["blob"], "--json", *called, folder=tmp_path)
        )
        assert [each["event"]["id"] for each in shown] == [event.id]
        copy = tmp_path / "copy"
        run("dead-letters", "export", str(copy), "--data", str(server.data), folder=tmp_path)
        (record,) = json.loads((copy / "dead" / blob["blob"]).read_bytes())
        assert record["id"] == event.id

        is_down.clear()
        before = len(crm.pushes)
        run("dead-letters", "replay", "--topic", "orders", "--yes", *called, folder=tmp_path)
        assert crm.wait_for(lambda pushes: ids(pushes[before:]) == {event.id})
