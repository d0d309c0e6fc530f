"""The links by which endpoints are validated."""

from __future__ import annotations

from shared.adapters.cache import ForgetfulStore
from shared.engine.validate import Validate
from shared.wiring import storage
from shared.wiring.once import once
from shared.wiring.process import CLOCK


@once
def validate() -> Validate:
    return Validate(resources=ForgetfulStore(storage.tables(), storage.directory()), clock=CLOCK)
