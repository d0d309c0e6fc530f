"""What other commands do with a server's folder: its admin key, and copies of its data."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from cli.deployment import DEFAULT_SCOPE, subscription_path
from cli.local import known_locally
from cli.local.known_locally import LocalDeployment, find_local, recorded
from cli.moving import FORM
from pushgrid.testing.memory import FakeClock
from server.data_folder import KEY, admin_key, take_folder
from shared.adapters.sql.sqlite.store import SqliteStore
from shared.adapters.threads import SystemThreads
from shared.deadletter.blob_summary import BlobSummary
from shared.engine.ports import CUSTOM_TOPICS, Table
from shared.subscriptions.subscription import DeadLetterDestination
from tests.commands import Run

URL = "http://127.0.0.1:7999"


@pytest.fixture(autouse=True)
def _records(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(known_locally, "path_of", lambda _: tmp_path / "local/7999.json")


def test_the_admin_key_of_a_folder_is_printed(run: Run, tmp_path: Path) -> None:
    key = admin_key(tmp_path)

    assert run("admin-key", "--data", str(tmp_path)) == (0, f"{key}\n", "")


def test_a_folder_without_a_key_says_who_makes_one(run: Run, tmp_path: Path) -> None:
    found = run("admin-key", "--data", str(tmp_path))

    assert (found.code, found.out) == (1, "")
    assert f"pushgrid serve --data {tmp_path}" in found.err


def test_while_it_runs_its_key_is_read_where_it_stands(tmp_path: Path) -> None:
    key = admin_key(tmp_path)
    with recorded(LocalDeployment(URL, key_file=str(tmp_path / KEY))) as record:
        found = find_local(URL)
        assert found
        assert found.key == key
        assert key not in record.read_text()
    assert find_local(URL) is None


# ── Copies ──


@contextmanager
def serving(folder: Path) -> Iterator[SqliteStore]:
    take_folder(folder)
    with closing(SqliteStore(folder, clock=FakeClock(), threads=SystemThreads())) as store:
        yield store


def make(store: SqliteStore, topic: str) -> None:
    store.documents.put(Table.TOPICS, CUSTOM_TOPICS, topic, {}, None)


def topics(store: SqliteStore) -> list[str]:
    return [each.name for each in store.documents.list(Table.TOPICS, CUSTOM_TOPICS)]


@pytest.mark.parametrize("is_new", [False, True], ids=["the same folder", "a new folder"])
def test_a_copy_of_a_running_server_is_restored(run: Run, tmp_path: Path, is_new: bool) -> None:  # noqa: FBT001
    folder, copy = tmp_path / "data", tmp_path / "copy.db"
    with serving(folder) as store:
        make(store, "orders")
        written = run("backup", str(copy), "--data", str(folder))
        make(store, "bills")
        refused = run("restore", str(copy), "--data", str(folder))
    assert written.code == 0, written.err
    assert "keys" in written.out
    assert copy.stat().st_mode & 0o777 == 0o600
    assert refused.code == 1
    assert "Another server" in refused.err

    into = tmp_path / "new" if is_new else folder
    restored = run("restore", str(copy), "--data", str(into))

    assert restored.code == 0, restored.err
    assert f"pushgrid serve --data {into} --hold" in restored.out
    assert ("what it had is in" in restored.out) == (not is_new)
    assert [each.name for each in (into / "backups").iterdir()] == ["replaced-0"] * (not is_new)
    with serving(into) as store:
        assert topics(store) == ["orders"]


def test_a_copy_replaces_no_file_and_needs_a_store(run: Run, tmp_path: Path) -> None:
    folder, copy = tmp_path / "data", tmp_path / "copy.db"
    copy.write_bytes(b"mine")
    with serving(folder):
        found = run("backup", str(copy), "--data", str(folder))
    none = run("backup", str(tmp_path / "other.db"), "--data", str(tmp_path / "nowhere"))

    assert (found.code, none.code) == (1, 1)
    assert "name another file" in found.err
    assert "has no store" in none.err
    assert copy.read_bytes() == b"mine"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["copy.db", "data"]


def test_a_copy_is_not_written_beside_the_original(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with serving(folder):
        (folder / "backups").mkdir()
        (tmp_path / "link").symlink_to(folder)
        for place in (folder, tmp_path / "link"):
            found = run("backup", str(place / "x.db"), "--data", str(folder))
            assert found.code == 1
            assert "lost with it: name a file" in " ".join(found.err.split())
        assert run("backup", str(folder / "backups/x.db"), "--data", str(folder)).code == 0
    assert not list(folder.glob("x.db*"))


def test_a_copy_that_is_refused_makes_no_folder(run: Run, tmp_path: Path) -> None:
    (copy := tmp_path / "copy.db").write_bytes(b"no database, but long enough to be one" * 100)

    refused = run("restore", str(copy), "--data", str(tmp_path / "new"))

    assert (refused.code, "can't be restored" in refused.err) == (1, True)
    assert [each.name for each in tmp_path.iterdir()] == ["copy.db"]


# ── Moving ──


def test_what_the_commands_own_settings_refuse_says_so(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PUSHGRID_ALLOW_HTTP", raising=False)
    webhook = {"endpointType": "WebHook", "properties": {"endpointUrl": "http://crm.example/"}}
    crm = {"properties": {"destination": webhook}}
    resources = [
        {"path": "topics/orders", "document": {"location": "local"}},
        {"path": subscription_path("orders", "crm"), "document": crm},
    ]
    document = {"pushgrid": "export", "form": FORM, "scope": DEFAULT_SCOPE, "account": "old"}
    (file := tmp_path / "export.json").write_text(json.dumps(document | {"resources": resources}))

    found = run("import", str(file), "--data", str(tmp_path / "data"))

    assert (found.code, found.out.count("1 item")) == (1, 1), found.err
    assert found.err.count("for this command too") == 1


@pytest.mark.parametrize("command", ["backup", "restore"])
@pytest.mark.parametrize(
    ("options", "environ", "said"),
    [
        (["--store", "postgresql://db/events"], {}, "pg_dump one moment, pg_basebackup with"),
        ([], {"PUSHGRID_STORE": "postgresql://db/events"}, "pg_dump one moment"),
        ([], {"PUSHGRID_STORE_FILE": "/etc/pushgrid/store"}, "pg_dump one moment"),
        ([], {}, "name --data FOLDER"),
    ],
)
def test_a_database_is_copied_by_postgresql(
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    options: list[str],
    environ: dict[str, str],
    said: str,
) -> None:
    for name, text in environ.items():
        monkeypatch.setenv(name, text)

    found = run(command, "copy.db", *options)

    assert (found.code, found.out) == (2, "")
    assert said in found.err


# ── Dead letters ──

DEAD = DeadLetterDestination(container="dead")


def letter(path: str) -> bytes:
    return json.dumps([{"id": path, "deadLetterReason": "TimeToLiveExceeded"}]).encode()


def test_dead_letters_move_with_what_proves_their_topic(run: Run, tmp_path: Path) -> None:
    data, other, folder = tmp_path / "data", tmp_path / "other", tmp_path / "dead letters"
    paths = [f"Orders/CRM/2026/1/1/0/{number}.json" for number in range(250)]
    summary = BlobSummary(f"{DEFAULT_SCOPE}/topics/orders", {"TimeToLiveExceeded": 1}, "Placed")
    with serving(data) as store:
        for path in paths:
            store.dead_letters.write(DEAD, path, letter(path), summary)
        known = store.dead_letters.list(DEAD, "Orders/CRM/2026/1/1/0/").blobs
        store.dead_letters.write_poison("a.json", b"{}")
        exported = run("dead-letters", "export", str(folder), "--data", str(data))
        assert run("dead-letters", "export", str(folder), "--data", str(data)).code == 0, "again"
    imported = run("import", str(folder), "--data", str(other))

    assert (exported.code, imported.code) == (0, 0), imported.err
    assert "251 blobs" in exported.out
    assert (folder / "dead" / paths[0]).stat().st_mode & 0o777 == 0o600
    with serving(other) as store:
        assert store.dead_letters.list(DEAD, "Orders/CRM/2026/1/1/0/").blobs == known
        assert known[0].summary == summary
        for path in paths:
            found = store.dead_letters.read(DEAD, path, 1000)
            assert found == (folder / "dead" / path).read_bytes() == letter(path)
        assert (
            store.dead_letters.read(DeadLetterDestination(container="poison"), "a.json", 9) == b"{}"
        )


def test_of_no_dead_letters_an_empty_folder_moves(run: Run, tmp_path: Path) -> None:
    data, other, folder = tmp_path / "data", tmp_path / "other", tmp_path / "dead letters"
    with serving(data):
        exported = run("dead-letters", "export", str(folder), "--data", str(data))
    imported = run("import", str(folder), "--data", str(other))

    assert (exported.code, imported.code) == (0, 0), exported.err + imported.err
    assert "0 blobs" in exported.out
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("name", ["PUSHGRID_STORE", "PUSHGRID_STORE_FILE"])
def test_a_folder_that_is_named_comes_before_a_database_of_the_environment(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    """In a shell that servers on PostgreSQL are started from."""
    data, other, folder = tmp_path / "data", tmp_path / "other", tmp_path / "dead letters"
    with serving(data) as store:
        store.dead_letters.write_poison("a.json", b"{}")
    monkeypatch.setenv(name, "/no/such/file")

    exported = run("dead-letters", "export", str(folder), "--data", str(data))
    imported = run("import", str(folder), "--data", str(other))
    both = run("import", str(folder), "--data", str(other), "--store", "postgresql://db/events")

    assert (exported.code, imported.code, both.code) == (0, 0, 2), exported.err + imported.err
    assert "name exactly one of --data FOLDER and --store URL" in both.err


@pytest.mark.parametrize("command", ["serve", "import", "dead-letters export"])
def test_where_the_database_is_named_is_in_help_and_refusal(
    run: Run, tmp_path: Path, command: str
) -> None:
    arguments = [] if command == "serve" else [str(tmp_path)]

    helped = run(*command.split(), "--help")
    refused = run(*command.split(), *arguments)

    shown = " ".join(helped.out.partition("--store URL")[2].partition("\n  -")[0].split())
    assert refused.code == 2
    for said in (shown, refused.err):
        assert all(name in said for name in ("PUSHGRID_STORE,", "PUSHGRID_STORE_FILE")), said


@pytest.mark.parametrize("command", ["backup", "restore"])
def test_what_takes_no_database_offers_none(run: Run, command: str) -> None:
    helped = run(command, "--help").out

    assert "--data FOLDER" in helped
    assert "--store" not in helped


@pytest.mark.parametrize("name", ["PUSHGRID_STORE", "PUSHGRID_STORE_FILE"])
def test_a_server_is_not_started_on_a_folder_beside_a_database_of_the_environment(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    """As in a container whose image names the folder: it would accept what nobody looks for."""
    monkeypatch.setenv(name, "/no/such/file")

    found = run("serve", "--data", str(tmp_path / "data"), "--port", "0", "--check")

    assert (found.code, found.out) == (2, "")
    assert f"unset {name}, or leave out --data" in found.err


def test_what_a_killed_export_has_left_half_is_not_taken(run: Run, tmp_path: Path) -> None:
    data, other, folder = tmp_path / "data", tmp_path / "other", tmp_path / "dead letters"
    whole, half = "Orders/CRM/2026/1/1/0/1.json", "Orders/CRM/2026/1/1/0/2.json"
    summary = BlobSummary(f"{DEFAULT_SCOPE}/topics/orders", {"TimeToLiveExceeded": 1}, "Placed")
    with serving(data) as store:
        for path in (whole, half):
            store.dead_letters.write(DEAD, path, letter(path), summary)
        run("dead-letters", "export", str(folder), "--data", str(data))
        (folder / "dead" / half).rename(folder / "dead" / f"{half}.part")
        (folder / "dead" / f"{half}.part").write_bytes(b'[{"i')

        imported = run("import", str(folder), "--data", str(other))
        assert run("dead-letters", "export", str(folder), "--data", str(data)).code == 0

    assert imported.code == 1
    assert f"{half}.part: not whole, its export was killed: export into it again" in imported.err
    assert not other.exists(), "nothing is taken"
    assert not list(folder.rglob("*.part"))
    assert run("import", str(folder), "--data", str(other)).code == 0


@pytest.mark.parametrize(
    ("name", "body", "why"),
    [
        ("notes.txt", letter("1"), "no folder that has the name of its container"),
        ("CRM/2026/1/1/0/1.json", letter("1"), "'CRM' is none. Name the folder that has a folder"),
        ("src/pkg/a.py", b"import os\n", "It is not a JSON array"),
        ("dead/CRM/2026/1/1/0/2.json", b'[{"id": "1"}]', "record 1 is no dead letter"),
        ("dead/CRM/2026/1/1/0/2.json", letter("1")[:-1], "is no dead letter: the blob is cut off"),
        ("poison/a.json", b"[]", "no poison record"),
        ("poison/a.json", b"text", "no poison record"),
        ("dead/CRM/2026/1/1/0/1.json.part", b"[", "not whole"),
        ("dead/CRM/2026/1/1/0/1.json.metadata", b"{}", "beside it can't be read"),
    ],
)
def test_a_folder_with_anything_but_copies_of_dead_letters_is_refused(
    run: Run, tmp_path: Path, name: str, body: bytes, why: str
) -> None:
    folder, data = tmp_path / "copies", tmp_path / "data"
    for each, content in (("dead/CRM/2026/1/1/0/1.json", letter("1")), (name, body)):
        (folder / each).parent.mkdir(parents=True, exist_ok=True)
        (folder / each).write_bytes(content)

    found = run("import", str(folder), "--data", str(data))

    assert (found.code, found.out) == (1, ""), found.err
    assert f"{folder / name.removesuffix('.metadata')}: " in found.err
    assert why in " ".join(found.err.split())
    assert not data.exists(), "nothing is stored"
