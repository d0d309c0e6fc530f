"""Reads the settings of the server from the environment, where a secret may stand in a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec

from server.azure_accounts import connections
from server.failure import CannotStart
from server.secret_files import IN_A_FILE, find_secret
from shared.errors import InvalidSettings
from shared.settings import NAMES, SECRETS, STORAGE, AttemptLogging, Settings
from shared.settings.storage_settings import settings_named
from shared.wiring.settings import read_settings

#: The header in which the app finds the publisher's address; only the server writes it.
CLIENT_ADDRESS = "x-pushgrid-client-address"
#: Settings of Azure Functions alone.
UNUSED = (STORAGE, NAMES["wake_schedule"], NAMES["deadletter_schedule"])
_BY_THE_SERVER = "the server's own"
_ATTEMPTS = NAMES["attempt_log"]
_ACCOUNTS, _WEBHOOKS = NAMES["deadletter_accounts"], NAMES["webhook_client_id"]


def with_secrets(environ: Mapping[str, str]) -> dict[str, str]:
    """
    Return *environ* with the secrets that its ``…_FILE`` name, in place of these.

    Raises:
        CannotStart: a file can't be read, or the secret is given twice.
    """
    found = dict(environ)
    for name in sorted({*SECRETS, *settings_named(environ.get(_ACCOUNTS, ""))}):
        if found.pop(f"{name}{IN_A_FILE}", "").strip():
            found[name] = find_secret(name, environ)
    return found


def read_server_settings(environ: Mapping[str, str]) -> Settings:
    """
    Read the settings from what `with_secrets` has returned.

    Raises:
        CannotStart: one is wrong, or asks for what this home has not got.
    """
    if not environ.get(_ATTEMPTS, "").strip():
        environ = {**environ, _ATTEMPTS: AttemptLogging.ALL}  # it costs no request to storage
    try:
        found = read_settings(environ, needs_storage=False)
        connections(found)  # raises if one is wrong
    except InvalidSettings as error:
        raise CannotStart(f"{error.message}. Correct the environment of the server.") from None
    if found.deadletter_accounts and not _is_installed("azure.storage.blob"):
        raise _missing(_ACCOUNTS, "the packages that reach storage accounts are")
    if found.has_webhook_identity and not _is_installed("azure.identity"):
        raise _missing(_WEBHOOKS, "the package that gets tokens is")
    return replace(found, wake_schedule=_BY_THE_SERVER, deadletter_schedule=_BY_THE_SERVER)


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # not even its parent is
        return False


def _missing(setting: str, what: str) -> CannotStart:
    return CannotStart(
        f"{setting} is set, but {what} not installed: pip install 'pushgrid[azure]', or unset it."
    )
