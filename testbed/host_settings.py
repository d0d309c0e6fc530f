"""The settings with which the demo, the benchmark and the tests run the host."""

from __future__ import annotations

from devhost.azurite import Azurite
from testbed.arm import ADMIN_KEY

LOCAL = {
    "FUNCTIONS_REQUEST_BODY_SIZE_LIMIT": "4194304",
    "PUSHGRID_ALLOW_HTTP": "true",
    "PUSHGRID_AZ_LOGIN": "false",  # local.settings.json may say otherwise, and exclude Entra ID
    "PUSHGRID_ALLOWED_NETWORKS": "127.0.0.0/8",
    "PUSHGRID_LOG_FORMAT": "json",
    "PUSHGRID_WAKE_SCHEDULE": "*/2 * * * * *",
    "PUSHGRID_DEADLETTER_SCHEDULE": "*/2 * * * * *",
    "PYTHON_THREADPOOL_THREAD_COUNT": "32",
}


def host_settings(azurite: Azurite, **changes: str) -> dict[str, str]:
    """Return the settings of a host on *azurite*, overridden by *changes*."""
    own = {"AzureWebJobsStorage": azurite.connection_string, "PUSHGRID_ADMIN_KEY": ADMIN_KEY}
    return LOCAL | own | changes
