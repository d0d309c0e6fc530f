"""The conformance files as values; README.md here explains them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
FILES: Mapping[str, dict[str, Any]] = {
    path.stem: json.loads(path.read_text())
    for path in sorted(FOLDER.glob("*.json"))
    if not path.name.endswith(".schema.json")
}


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """The end of an event; *at* and *blob_at* in seconds since publish."""

    state: str
    reason: str | None
    last_outcome: str | None
    at: float
    blob_at: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """
    The attempts and the end that an edition prescribes for one event.

    *attempts* are in seconds since publish, where nothing but a timeout takes time. *headers* hold
    a value for each attempt.
    """

    profile: str
    name: str
    endpoint: str
    answers: tuple[str, ...]
    policy: Mapping[str, int]
    has_dead_letter: bool
    attempts: tuple[float, ...]
    headers: Mapping[str, tuple[str, ...]]
    end: End
    timeout: float

    def __str__(self) -> str:
        return f"{self.profile}: {self.name}"

    def answer(self, number: int) -> str:
        """Return the answer to attempt *number* (the first is 1): the last one repeats."""
        return self.answers[min(number, len(self.answers)) - 1]


def _case(document: Mapping[str, Any], case: Mapping[str, Any]) -> Case:
    expected, end = case["expect"], case["expect"]["end"]
    return Case(
        profile=document["profile"],
        name=case["name"],
        endpoint=case["endpoint"],
        answers=tuple(case["answers"]),
        policy=case["policy"],
        has_dead_letter=case["deadLetter"],
        attempts=tuple(expected["attempts"]),
        headers={name: tuple(values) for name, values in expected["headers"].items()},
        end=End(
            state=end["state"],
            reason=end["reason"],
            last_outcome=end["lastOutcome"],
            at=end["at"],
            blob_at=end["blobAt"],
        ),
        timeout=document["acknowledgementTimeout"],
    )


CASES: tuple[Case, ...] = tuple(
    _case(document, case) for document in FILES.values() for case in document["cases"]
)
