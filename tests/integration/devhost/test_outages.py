"""Outages of storage: each trigger logs them once, and no message is lost."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from azure.storage.queue import QueueClient

from devhost import azurite as azurite_module
from devhost.azurite import Azurite, running_azurite
from devhost.errors import HostError
from testbed.storage_proxy import (
    Attack,
    Failure,
    StorageProxy,
    StorageRequest,
    running_storage_proxy,
)
from tests.host.running import until
from tests.integration.devhost.functions import HELLO, HTTP, QUEUE, TICK, TIMER, WORK


def outage(_: StorageRequest) -> Attack:
    return Attack(Failure.RESET)


@pytest.fixture
def proxy(azurite: Azurite) -> Iterator[StorageProxy]:
    with running_storage_proxy(azurite) as running:
        yield running


def test_a_host_that_starts_without_storage_finds_it_later(start, function, proxy, queue):
    proxy.attack = outage
    function("good", HELLO, **HTTP)
    function("work", WORK, queueName=queue.queue_name, **QUEUE)
    function("clock", TICK, **TIMER)

    host = start(AzureWebJobsStorage=proxy.azurite.connection_string)

    assert host.get("/good") == (200, b"hello")
    host.wait_for(f"queue {queue.queue_name}: storage is failing, retrying")
    host.wait_for("timer clock: storage is failing, retrying")
    queue.send_message("early")
    proxy.attack = None
    host.wait_for("out early")
    host.wait_for("clock  ok")
    host.assert_said("retrying", 2)
    host.assert_said("available again", 2)
    host.assert_no_traceback()


def test_an_outage_loses_no_message_and_leaves_the_timer_to_another_host(
    start, function, proxy, queue, tmp_path, tmp_path_factory, azurite
):
    """
    Each trigger logs once that storage fails and once that it is back; meanwhile the host is idle.

    The timer's lease expires: it fires on another host then, and only there until that one ends.
    """
    function("clock", TICK, **TIMER)
    other_root = tmp_path_factory.mktemp("other") / "app"
    shutil.copytree(tmp_path, other_root)
    function("good", HELLO, **HTTP)
    function("work", WORK, queueName=queue.queue_name, **QUEUE)
    lease = {
        "AzureFunctionsWebHost__hostid": f"pair{uuid.uuid4().hex[:8]}",
        "AzureFunctionsJobHost__singleton__listenerLockPeriod": "00:00:15",
        "AzureFunctionsJobHost__singleton__listenerLockRecoveryPollingInterval": "00:00:01",
    }
    host = start(
        "--invisibility", "10", AzureWebJobsStorage=proxy.azurite.connection_string, **lease
    )
    host.wait_for("clock  ok")
    storage = {"AzureWebJobsStorage": azurite.connection_string}
    other = start("--root", str(other_root), **storage, **lease)
    other.wait_for("ready ")
    queue.send_message("slow one")
    host.wait_for("in slow one")
    ticks = host.count("clock  ok")
    until(lambda: host.count("clock  ok") > ticks + 2)
    other.assert_said("clock  ok", 0)

    known = len(host.lines)
    proxy.attack = outage
    (tmp_path / "gate").touch()
    queue.send_message("meanwhile")
    host.wait_for("will be received again")
    cost = host.idle_cost(5)
    host.wait_for("timer clock: lost its lease")
    assert host.get("/good") == (200, b"hello")
    other.wait_for("clock  ok")
    ticks, others = host.count("clock  ok"), other.count("clock  ok")
    proxy.attack = None

    host.wait_for("out meanwhile")
    until(lambda: host.count("out slow one") == 2)
    until(lambda: queue.get_queue_properties().approximate_message_count == 0)
    host.wait_for("timer clock: storage is available again")
    until(lambda: other.count("clock  ok") > others + 2)
    assert host.count("clock  ok") == ticks
    assert other.stop() == 0
    until(lambda: host.count("clock  ok") > ticks)
    warnings = host.warnings_after(known)
    expected = [
        f"queue {queue.queue_name}, message ",
        f"queue {queue.queue_name}: storage is available again",
        f"queue {queue.queue_name}: storage is failing, retrying",
        "timer clock: lost its lease, trying to take it again",
        "timer clock: storage is available again",
        "timer clock: storage is failing, retrying",
    ]
    assert len(warnings) == len(expected), "\n".join(warnings)
    for line, start_of_line in zip(warnings, expected, strict=True):
        assert line.startswith(start_of_line)
    host.assert_no_traceback()
    other.assert_no_traceback()
    assert cost < 0.2


def test_azurite_keeps_its_data_however_its_block_ends(tmp_path, monkeypatch):
    """Ctrl-C ends `pushgrid dev --data FOLDER`; the folder may be relative."""
    monkeypatch.chdir(tmp_path)

    def interrupted() -> None:
        with (
            running_azurite(folder=Path("kept")) as azurite,
            QueueClient.from_connection_string(azurite.connection_string, "jobs") as jobs,
        ):
            jobs.create_queue()
            jobs.send_message("one")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()

    with (
        running_azurite(folder=tmp_path / "kept") as azurite,
        QueueClient.from_connection_string(azurite.connection_string, "jobs") as jobs,
    ):
        assert [each.content for each in jobs.peek_messages()] == ["one"]


def test_azurite_keeps_what_was_stored_just_before_its_process_was_killed(tmp_path, monkeypatch):
    # As long as the killed one may take to store, on a machine of any speed.
    monkeypatch.setattr(azurite_module, "_FREE_SECONDS", azurite_module._END_SECONDS)
    kept = tmp_path / "kept"
    source = (
        "import os, pathlib\n"
        "from azure.storage.queue import QueueClient\n"
        "from devhost.azurite import running_azurite\n"
        f"with running_azurite(folder=pathlib.Path({str(kept)!r})) as azurite:\n"
        " jobs = QueueClient.from_connection_string(azurite.connection_string, 'jobs')\n"
        " jobs.create_queue()\n"
        " jobs.send_message('one')\n"
        " os.kill(os.getpid(), 9)\n"
    )
    assert subprocess.run([sys.executable, "-c", source], check=False).returncode == -9

    with (
        running_azurite(folder=kept) as azurite,
        QueueClient.from_connection_string(azurite.connection_string, "jobs") as jobs,
    ):
        assert [each.content for each in jobs.peek_messages()] == ["one"]


def test_only_one_keeps_its_storage_in_a_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(azurite_module, "_FREE_SECONDS", 0)

    with (
        running_azurite(folder=tmp_path),
        pytest.raises(HostError, match="another local deployment"),
        running_azurite(folder=tmp_path),
    ):
        pass


def test_a_folder_that_may_not_be_entered_names_the_fix(tmp_path, monkeypatch):
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", refuse)  # whoever runs the test: root may enter all

    fix = f"Permission denied: choose a folder of your own, or run chmod 700 {tmp_path}"
    with pytest.raises(HostError, match=fix), running_azurite(folder=tmp_path):
        pass


@pytest.mark.parametrize(
    ("mode", "files", "kept_with"),
    [
        (0o755, ["notes.txt"], None),
        (0o710, ["notes.txt"], None),
        (0o700, ["notes.txt"], 0o700),
        (0o755, [], 0o700),
    ],
)
def test_kept_storage_is_for_its_owner_only(tmp_path, mode, files, kept_with):
    """A project's or home folder that others reach stays as it is."""
    kept = tmp_path / "home"
    kept.mkdir()
    for each in files:
        (kept / each).touch()
    kept.chmod(mode)

    with contextlib.ExitStack() as stack:
        if kept_with is None:
            stack.enter_context(pytest.raises(HostError, match=f"chmod 700 {kept}"))
        stack.enter_context(running_azurite(folder=kept))

    assert kept.stat().st_mode & 0o777 == (kept_with or mode)
    assert kept_with or [each.name for each in kept.iterdir()] == files


COLLECTION = """
import {createRequire} from 'node:module'
const require = createRequire(process.env.AZURITE)
const memory = require('./common/persistence/MemoryExtentStore.js')
const metadata = new (require('./common/persistence/LokiExtentMetadataStore.js').default)('x', true)
const log = {info() {}, debug() {}}
const store = new memory.default('queue', new memory.MemoryExtentChunkStore(), metadata, log, Error)
await store.init()
const [kept, ...gone] = await Promise.all(Array(50).fill('x').map(
  text => store.appendExtent(Buffer.from(text))))
const rows = metadata.db.getCollection(metadata.EXTENTS_COLLECTION)
const remove = rows.removeBatchByPositions
let removals = 0
rows.removeBatchByPositions = function (...given) { removals++; return remove.apply(this, given) }
const deleted = await store.deleteExtents(new Set(gone.map(extent => extent.id)))
const left = rows.data.map(row => row.id === kept.id)
const [read] = await (await store.readExtent(kept)).toArray()
console.log(JSON.stringify([removals, deleted, left, store.chunks.totalSize(), `${read}`]))
process.exit()
"""


LOADED = """
import {createRequire} from 'node:module'
const require = createRequire(process.env.AZURITE)
require('./common/Telemetry.js')
const packages = Object.keys(require.cache).map(file => file.split('node_modules/').at(-1))
console.log(JSON.stringify(packages.filter(file => file.startsWith('@opentelemetry/')).length))
process.exit()
"""


def beside_azurite(folder: Path, source: str) -> Any:
    """Return what *source* prints in the Node that has Azurite's modules as we change them."""
    (folder / "source.mjs").write_text(source)
    *node, script = azurite_module._command("SIGKILL")
    with subprocess.Popen(
        [*node, str(folder / "source.mjs")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "AZURITE": script},
    ) as process:
        assert process.stdout
        return json.loads(process.stdout.read())


def test_azurite_removes_all_garbage_in_memory_at_once(tmp_path):
    """By itself it sorts and copies the whole collection for each extent."""
    assert beside_azurite(tmp_path, COLLECTION) == [1, 49, [True], 1, "x"]


def test_azurite_loads_nothing_to_send_telemetry_with(tmp_path):
    """It is switched off, and took more than half of the processor time of a start."""
    assert beside_azurite(tmp_path, LOADED) == 0
