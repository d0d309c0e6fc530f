"""What 'pushgrid dead-letters show' adds to the records of a blob."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

AT = "2026-02-09T12:00:00Z"
ANSWER = {"headers": {}, "body": "no such customer", "isTruncated": False, "systemId": "s-1"}
LETTER = {"fault": None, "reason": "X", "attempts": 1, "publishedAt": AT, "lastAttemptAt": AT}


def test_the_last_answer_stands_beside_the_event(run_on: Callable[..., Any]) -> None:
    """As far as the attempts of the event are still recorded; of another with its id it is not."""
    attempts = [{"detail": None, "answer": ANSWER}]
    letters = [
        LETTER | {"event": {"id": "e-1", "data": {"total": 7, "note": "x" * 300}}},
        LETTER | {"event": {"id": "e-2"}},
        LETTER | {"event": {"id": {"of": ["any", "JSON"]}}},
        {"fault": "broken"},
    ]
    recorded = [
        {"eventId": "e-1", "publishedAt": AT, "attempts": attempts},
        {"eventId": "e-2", "publishedAt": "2026-02-09T12:00:01Z", "attempts": attempts},
    ]
    asked: list[dict[str, Any]] = []

    def answer(path: str, query: dict[str, Any]) -> tuple[int, object]:
        if path.endswith("/crm/deadLetters/records"):
            return 200, {"value": letters}
        assert path.endswith("/crm/attempts")
        asked.append({name: query[name] for name in ("since", "$top")})
        return 200, {"value": recorded}

    shown = run_on(answer, *["dead-letters", "show", "crm/1.json", "-t", "orders", "-s", "crm"])

    rows = shown.out.splitlines()
    assert [("no such customer" in row) for row in rows[-4:]] == [True, False, False, False]
    assert '{"total": 7, "note": "xxx' in rows[-4]
    assert "x" * 200 not in rows[-4]
    assert asked == [{"since": AT, "$top": 1000}]
