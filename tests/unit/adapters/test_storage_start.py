"""What a function that touches storage imports: a cold start pays for every module."""

from __future__ import annotations

import subprocess
import sys

import pytest

QUEUE = "import shared.adapters.storage_queues as q, shared.adapters.storage_account as a"
MADE = f"{QUEUE}\na.StorageAccount({{'': 'UseDevelopmentStorage=true'}}).queue('deliveries')"


@pytest.mark.parametrize(
    ("code", "spared"),
    [
        (QUEUE, {"requests", "azure.storage.queue", "azure.storage.blob", "azure.data.tables"}),
        (MADE, {"azure.storage.blob", "azure.data.tables", "azure.identity", "aiohttp"}),
    ],
    ids=["imported", "a queue's client made"],
)
def test_only_what_is_used_is_imported(code: str, spared: set[str]) -> None:
    code += "\nimport sys; print(*sys.modules)"
    loaded = subprocess.check_output([sys.executable, "-c", code], text=True).split()

    assert not spared.intersection(loaded)
