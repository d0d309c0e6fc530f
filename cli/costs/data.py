"""Reads the model's data: list prices, and what the measuring run counted."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

_DATA = Path(__file__).parents[1] / "data"


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """Dollars for so many of a unit."""

    meter: str
    price: float
    per: int
    unit: str
    region: str
    date: str
    source: str
    free: float = 0.0  # so many a month cost nothing

    def of(self, amount: float) -> float:
        """Return the dollars for *amount* units, before what is free."""
        return amount * self.price / self.per


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What was counted; ``bench/steps.py`` derives it."""

    measured: str
    versions: Mapping[str, str]
    steps: Mapping[str, Mapping[str, float]]  # storage operations by kind, for one of each step
    runs: Mapping[str, float]  # the seconds that runs take


@cache
def prices() -> Mapping[str, Price]:
    """Return the prices by name."""
    return {name: Price(**members) for name, members in _read("prices.json")["prices"].items()}


@cache
def measured() -> Measured:
    """Return what the measuring run found."""
    read = _read("operations.json")
    return Measured(**{name: read[name] for name in ("measured", "versions", "steps", "runs")})


def scenarios() -> list[dict[str, Any]]:
    """Return the scenarios of the measuring run, from which `measured` was derived."""
    return list(_read("operations.json")["scenarios"])


def _read(name: str) -> Any:
    return json.loads((_DATA / name).read_text())


def meter_of(kind: str) -> str:
    """Name the price of a storage operation, such as ``blob write payloads``."""
    service, operation = kind.split(" ")[:2]
    if service != "blob":
        return service
    if operation in {"write", "list", "create"}:
        return "blob_write"
    return "blob_delete" if operation == "delete" else "blob_read"
