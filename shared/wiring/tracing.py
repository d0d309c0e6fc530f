"""Composes spans of OpenTelemetry, where an endpoint for them is set and the extra is installed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from shared import telemetry
from shared.wiring.process import once

if TYPE_CHECKING:
    from shared.adapters.otel import Spans

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")


@once
def spans() -> Spans | None:
    """Return what makes spans; ``None``: nobody wants any, and nothing was imported."""
    is_off = os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    if is_off or not any(os.environ.get(name, "").strip() for name in ENDPOINTS):
        return None
    try:
        from shared.adapters.otel import Spans, over_otlp

        return Spans(over_otlp())
    except ImportError as error:
        telemetry.warning("otel.missing", detail=f"{error}: install pushgrid[otel]")
        return None
