"""What it costs to list, show and replay a blob of dead letters that somebody else has written."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from devhost.azurite import Azurite
from shared.adapters.storage.account import StorageAccount
from tests.contract.dead_letter_memory import PATH, SHAPES

MOST = 100  # MB above idle


@pytest.fixture
def kind() -> str:
    return "azurite"


@pytest.mark.parametrize("shape", SHAPES)
def test_no_blob_takes_much_memory(shape: str, account: StorageAccount, azurite: Azurite):
    container = account.container("dead")
    container.create_container()
    container.upload_blob(PATH, SHAPES[shape]())
    named = {"STORAGE": azurite.connection_string, "CONTAINER": container.container_name}

    done = subprocess.run(
        [sys.executable, "-m", "tests.contract.dead_letter_memory"],
        env={**os.environ, **named},
        stdout=subprocess.PIPE,
        check=True,
        timeout=120,
    )

    risen = json.loads(done.stdout)
    assert risen.pop("state") == "Done"
    assert max(risen.values()) < MOST, risen
