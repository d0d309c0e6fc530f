"""Reads the settings, and writes to the log where they are doubtful."""

from __future__ import annotations

from collections.abc import Mapping

from shared import telemetry
from shared.adapters.azure_storage.connection_setting import connections_beside
from shared.delivery.profiles import PROFILES
from shared.errors import InvalidSettings
from shared.settings import NAMES, Settings, from_environ, unknown, unresolved

_CLOSED = {
    NAMES["admin_key"]: "the management API and the metrics reject this key",
    NAMES["admin_key_2"]: "the management API and the metrics reject this key",
    NAMES["reader_key"]: "the management API and the metrics reject this key",
    NAMES["webhook_client_secret"]: "no secret gets tokens for webhooks that Entra ID protects",
    NAMES["webhook_certificate"]: "no certificate gets tokens for webhooks that Entra ID protects",
    NAMES["ca_bundle"]: "only the authorities of the system are trusted",
    NAMES["client_certificate"]: "requests to endpoints carry no certificate",
    NAMES["client_key"]: "the key is looked for beside the client certificate",
    NAMES["client_key_password"]: "the key of the client certificate is read without a password",
}
_ACCOUNT_CLOSED = "dead letters for its storage account wait, for as long as for one that is away"
_TAKEN_LITERALLY = "the text of the reference is used as its value"
_REMEDY = (
    "check the reference under the app's environment variables, check that the vault has the "
    "secret and that the app's identity may read it, then restart the app"
)


def read_settings(environ: Mapping[str, str], *, needs_storage: bool = True) -> Settings:
    """Read the settings. Raises InvalidSettings with every fault."""
    found = from_environ(environ, frozenset(PROFILES), needs_storage=needs_storage)
    if needs_storage:
        connections_beside(found.storage, found.deadletter_accounts)  # raises if one is wrong
    _check_certificates(found)
    return found


def _check_certificates(found: Settings) -> None:
    """Raise InvalidSettings if what TLS to endpoints needs can't be loaded."""
    if found.client_key and not found.client_certificate:
        missing, key = NAMES["client_certificate"], NAMES["client_key"]
        raise InvalidSettings(f"{missing} is not set, but {key} is", target=missing)
    own = (found.client_certificate, found.client_key, found.client_key_password)
    for name, values in (("ca_bundle", (found.ca_bundle,)), ("client_certificate", (None, *own))):
        if not any(values):
            continue
        import ssl

        from shared.adapters.http.tls import TlsMaterial

        try:
            TlsMaterial(*values).load(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
        except OSError as error:
            detail = f"{NAMES[name]}: its certificates can't be loaded: {error.strerror}"
            raise InvalidSettings(detail, target=NAMES[name]) from error


def log_doubtful_settings(environ: Mapping[str, str]) -> None:
    """Write a line for each setting that Key Vault left unresolved or that nothing reads."""
    for name in unresolved(environ):
        closed = _CLOSED.get(name) or (_ACCOUNT_CLOSED if name not in NAMES.values() else None)
        effect = f"it counts as unset: {closed}" if closed else _TAKEN_LITERALLY
        detail = f"Key Vault returned no value for it, so {effect}. To fix it: {_REMEDY}."
        telemetry.error("setting.unresolved", setting=name, detail=detail)
    for name, nearest in unknown(environ).items():
        telemetry.warning("setting.unknown", setting=name, nearest=nearest)
