"""Frozen dataclasses by inheritance, for the many small classes of trees and types."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, dataclass_transform


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Immutable:
    """Makes each subclass a frozen dataclass whose fields are given by name."""

    def __init_subclass__(cls, **_options: Any) -> None:
        dataclass(frozen=True, kw_only=True)(cls)
