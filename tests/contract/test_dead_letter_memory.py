"""What it costs to list, show and replay a blob of dead letters that somebody else has written."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest

from devhost.azurite import Azurite
from shared.adapters.storage.clients import StorageClients
from tests.contract.dead_letter_memory import PATH, SHAPES

MOST = 100  # MB above idle


@pytest.fixture
def kind() -> str:
    return "azurite"


@pytest.fixture(scope="module")
def measuring() -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-m", "tests.contract.dead_letter_memory"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield process
        process.communicate()  # which ends it


@pytest.mark.parametrize("shape", SHAPES)
def test_no_blob_takes_much_memory(
    shape: str, account: StorageClients, azurite: Azurite, measuring: subprocess.Popen[str]
):
    container = account.container("dead")
    container.create_container()
    container.upload_blob(PATH, SHAPES[shape]())
    assert measuring.stdin
    assert measuring.stdout

    where = [azurite.connection_string, container.container_name]
    measuring.stdin.write(json.dumps(where) + "\n")
    measuring.stdin.flush()
    risen = json.loads(measuring.stdout.readline())

    assert risen.pop("state") == "Done"
    assert max(risen.values()) < MOST, risen
