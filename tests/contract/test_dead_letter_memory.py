"""How far memory rises to list, show and replay a blob that somebody else has written."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from multiprocessing import get_context
from multiprocessing.pool import Pool
from pathlib import Path
from typing import Any

import pytest

from devhost.azurite import Azurite
from pushgrid.testing.deployment import Pushgrid
from pushgrid.testing.memory import START
from shared.adapters.azure_storage.blobs import StorageDeadLetters
from shared.adapters.azure_storage.clients import StorageClients
from shared.deadletter.reader import MAX_BLOB
from shared.engine.ports import Listing
from shared.subscriptions.subscription import DeadLetterDestination
from testbed.arm import dead_letter_destination
from tests.azure_dead_letters import ADDED, EVENT

MOST = 100  # MB above idle
PATH = "CRM/2026/2/9/12/0.json"
LETTER = json.dumps(EVENT | ADDED).encode()
_HEAD = LETTER.removesuffix(b"}")
_PAGES = 3  # that are shown
_NEXT = re.compile(rb'"nextLink":"([^"]+)"')


def _filled(head: bytes, part: bytes, tail: bytes) -> bytes:
    return b"".join([head, part * ((MAX_BLOB - len(head) - len(tail)) // len(part)), tail])


def _largest_events(part: bytes) -> bytes:
    letter = b"".join([_HEAD, b',"data":[', part * (1_040_000 // len(part)), b"7]}"])
    return b"".join([b"[", b",".join([letter] * (MAX_BLOB // (len(letter) + 1))), b"]"])


SHAPES = {
    "ordinary": lambda: b"[" + b",\n".join([LETTER] * 1000) + b"]",
    "empty objects": lambda: _filled(b"[", b"{},", b"{}]"),
    "one giant record": lambda: _filled(b"[" + _HEAD + b',"data":[', b"{},", b"{}]}]"),
    "one giant string": lambda: _filled(b'["', "😀".encode(), b'"]'),
    "deep nesting": lambda: b"".join([b"[" * (MAX_BLOB // 2), b"]" * (MAX_BLOB // 2)]),
    "single record": lambda: _filled(_HEAD + b',"data":[', b"{},", b"{}]}"),
    "largest events of objects": lambda: _largest_events(b'{"":{}},'),
}


def _memory(kind: str) -> int:
    """Return the memory of this process, in MB: ``VmRSS`` now, ``VmHWM`` at most."""
    found = re.search(rf"{kind}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found
    return int(found[1]) * 1024 // 1_000_000


def _get(pushgrid: Pushgrid, target: str) -> str:
    """Read a page, and return the target of the next one."""
    answer = pushgrid._app.http("GET", target, {"Authorization": f"Bearer {pushgrid.admin_key}"})
    found = _NEXT.search(answer.body[-2000:])
    return found[1].decode().removeprefix(pushgrid.url) if found else ""


def measure(connection: str, container: str) -> dict[str, Any]:
    """Return by how many MB memory has risen after each step, and how the replay ended."""
    account = StorageClients({"": connection})
    storage = StorageDeadLetters(account, {"testing": account})

    def listed(destination: DeadLetterDestination, folder: str) -> Listing:
        """List as storage does, but with blobs that are older than the clock of the test."""
        found = storage.list(destination, folder)
        return Listing(found.folders, [each._replace(written_at=START) for each in found.blobs])

    with ExitStack() as until_end:
        pushgrid = Pushgrid(until_end)
        pushgrid._app.dead_letters.list = listed  # type: ignore[method-assign]
        pushgrid._app.dead_letters.read = storage.read  # type: ignore[method-assign]
        destination = dead_letter_destination("testing", container)
        crm = pushgrid.topic("orders").subscribe("crm", deadLetterDestination=destination)
        pushgrid.advance(minutes=1)
        version = "api-version=2025-02-15"
        path = pushgrid.arm("GET", crm.path)["id"]
        blobs = f"{path}/deadLetters?{version}"
        records = f"{path}/deadLetters/records?{version}&blob={PATH}"
        _get(pushgrid, blobs + "&since=2027-01-01")
        _get(pushgrid, records.replace("0.json", "none.json"))
        idle, risen = _memory("VmRSS"), {}
        _get(pushgrid, blobs)
        risen["list"] = _memory("VmHWM") - idle
        for _ in range(_PAGES):
            records = records and _get(pushgrid, records)
        risen["show"] = _memory("VmHWM") - idle
        to = {"topic": "orders", "subscription": "crm"}
        wanted = {"container": container, "account": "testing", "to": to, "dryRun": True}
        job = pushgrid.arm("POST", "replays", wanted)
        pushgrid.advance(minutes=5)
        risen["replay"] = _memory("VmHWM") - idle
        job = pushgrid.arm("GET", f"replays/{job['id']}")
        return risen | {"state": job["state"]}


@pytest.fixture
def kind() -> str:
    return "azurite"


@pytest.fixture(scope="module")
def children() -> Iterator[Pool]:
    """Give a process of its own to each measurement, forked when everything has been imported."""
    context = get_context("forkserver")
    context.set_forkserver_preload([__name__])
    with context.Pool(1, maxtasksperchild=1) as pool:
        yield pool


@pytest.mark.parametrize("shape", SHAPES)
def test_no_blob_takes_much_memory(
    shape: str, account: StorageClients, azurite: Azurite, children: Pool
):
    container = account.container("dead")
    container.create_container()
    container.upload_blob(PATH, SHAPES[shape]())

    risen = children.apply(measure, (azurite.connection_string, container.container_name))

    assert risen.pop("state") == "Done"
    assert max(risen.values()) < MOST, risen
