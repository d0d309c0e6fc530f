"""The links by which endpoints are validated."""

from __future__ import annotations

from shared.adapters.directory import InvalidatingStore
from shared.engine.manage.validation_links import Validate
from shared.wiring import storage
from shared.wiring.once import once
from shared.wiring.process import CLOCK, backoff


@once
def validate() -> Validate:
    resources = InvalidatingStore(storage.tables(), storage.directory())
    return Validate(resources=resources, clock=CLOCK, backoff=backoff)
