"""What answers where the settings are wrong, instead of everything else; mostly nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared import telemetry
from shared.wiring.once import once
from shared.wiring.process import CLOCK, new_id, settings_fault

if TYPE_CHECKING:
    from shared.engine.operations.misconfigured import MisconfiguredApi, MisconfiguredPublish


@once
def api() -> MisconfiguredApi | None:
    fault = settings_fault()
    if fault is None:
        return None
    from shared.engine.operations.misconfigured import MisconfiguredApi

    _tell()
    return MisconfiguredApi(error=fault)


@once
def publish() -> MisconfiguredPublish | None:
    fault = settings_fault()
    if fault is None:
        return None
    from shared.engine.operations.misconfigured import MisconfiguredPublish

    _tell()
    return MisconfiguredPublish(error=fault, clock=CLOCK, new_id=new_id)


@once
def _tell() -> None:
    """Write to the log what the answers don't quote."""
    if fault := settings_fault():
        telemetry.error("settings.invalid", detail=fault.message)
