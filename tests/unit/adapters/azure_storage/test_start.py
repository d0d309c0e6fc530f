"""What a function that touches storage imports: a cold start pays for every module."""

from __future__ import annotations

import subprocess
import sys

import pytest

QUEUE = "from shared.adapters.azure_storage import clients as a, queues as q"
MADE = f"{QUEUE}\na.StorageClients({{'': 'UseDevelopmentStorage=true'}}).queue('deliveries')"

SECTION = "{'accountName': 'acc', 'credential': 'managedidentity'}"
READ = (
    f"{QUEUE}\nimport shared.adapters.azure_storage.connection_setting as c\n"
    f"c.StorageConnection({SECTION})"
)


@pytest.mark.parametrize(
    ("code", "spared"),
    [
        (QUEUE, {"requests", "azure.storage.queue", "azure.storage.blob", "azure.data.tables"}),
        (MADE, {"azure.storage.blob", "azure.data.tables", "azure.identity", "aiohttp"}),
        (READ, {"azure.identity", "msal", "cryptography"}),
    ],
    ids=["imported", "a queue's client made", "an identity read"],
)
def test_only_what_is_used_is_imported(code: str, spared: set[str]) -> None:
    code += "\nimport sys; print(*sys.modules)"
    loaded = subprocess.check_output([sys.executable, "-c", code], text=True).split()

    assert not spared.intersection(loaded)
