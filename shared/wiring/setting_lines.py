"""What the log says of settings that are not as they should be."""

from __future__ import annotations

import os

from shared import telemetry
from shared.settings import NAMES, unknown, unresolved
from shared.wiring.once import once

_CLOSED = {
    NAMES["admin_key"]: "the management API and the metrics are closed to keys",
    NAMES["webhook_client_secret"]: "webhooks that Entra ID protects get no tokens by a secret",
    NAMES["webhook_certificate"]: "webhooks that Entra ID protects get no tokens by a certificate",
}
_TAKEN = "the text of the reference is its value"
_WHAT_TO_DO = (
    "see what the app's environment variables say of the reference, that the vault has the secret, "
    "and that the app's identity may read it; then restart the app"
)


@once
def tell_settings() -> None:
    """
    Write a line for each setting that Key Vault has left unresolved, or that nobody reads.

    For use cases to call when they are composed, which is in an invocation: what is written while
    functions are loaded belongs to none, and the host throws it away.
    """
    for name in unresolved(os.environ):
        effect = f"it counts as unset: {_CLOSED[name]}" if name in _CLOSED else _TAKEN
        detail = f"Key Vault gave no value for it, so {effect}. What to do: {_WHAT_TO_DO}."
        telemetry.error("setting.unresolved", setting=name, detail=detail)
    for name, nearest in unknown(os.environ).items():
        telemetry.warning("setting.unknown", setting=name, nearest=nearest)
