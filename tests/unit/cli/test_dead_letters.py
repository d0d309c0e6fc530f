"""What 'pushgrid dead-letters show' adds to the records of a blob."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from cli.deployment import Deployment
from cli.program import main

AT = "2026-02-09T12:00:00Z"
ANSWER = {"headers": {}, "body": "no such customer", "isTruncated": False, "systemId": "s-1"}
LETTER = {"fault": None, "reason": "X", "attempts": 1, "publishedAt": AT, "lastAttemptAt": AT}


def test_the_last_answer_stands_beside_the_event(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As far as the attempts of the event are still recorded; of another with its id it is not."""
    attempt = {"detail": None, "answer": ANSWER}
    letters = [
        LETTER | {"event": {"id": "e-1", "data": {"total": 7, "note": "x" * 300}}},
        LETTER | {"event": {"id": "e-2"}},
        {"fault": "broken"},
    ]
    asked: list[dict[str, Any]] = []

    def pages(_: Deployment, path: str, **_query: object) -> Iterator[dict[str, Any]]:
        assert path.endswith("/crm/deadLetters/records")
        yield {"value": letters}

    def get(_: Deployment, path: str, **query: Any) -> dict[str, Any]:
        assert path.endswith("/crm/attempts")
        asked.append(query)
        event = {"eventId": "e-1", "publishedAt": AT, "attempts": [attempt]}
        again = {"eventId": "e-2", "publishedAt": "2026-02-09T12:00:01Z", "attempts": [attempt]}
        return {"value": [event, again]}

    monkeypatch.setattr(Deployment, "pages", pages)
    monkeypatch.setattr(Deployment, "get", get)
    command = "dead-letters show crm/1.json --topic orders --subscription crm --key k --url"

    assert main([*command.split(), "http://127.0.0.1:1"]) == 0

    rows = capsys.readouterr().out.splitlines()
    assert [("no such customer" in row) for row in rows[-3:]] == [True, False, False]
    assert '{"total": 7, "note": "xxx' in rows[-3]
    assert "x" * 200 not in rows[-3]
    assert asked == [{"since": AT, "$top": 1000}]
