"""What people are told while an endpoint is asked for its consent."""

from __future__ import annotations

import threading

import pytest

from cli.deployment import Deployment
from cli.subscription import stored
from testbed.subscriber import PATIENCE

HERE = Deployment(url="http://127.0.0.1:7071", token=lambda: "")


def test_a_wait_for_consent_is_told_without_the_secrets_of_the_url(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[str] = []
    has_told = threading.Event()

    def say(text: str, **_: object) -> None:
        told.append(text)
        has_told.set()

    monkeypatch.setattr(stored, "say", say)
    monkeypatch.setattr(stored, "_SILENT_SECONDS", 0.0)

    with stored.asking(HERE, "http://a.test/hook?code=s3cret"):
        assert has_told.wait(PATIENCE)

    assert told == ["asking http://a.test/hook for consent (up to 100 s)"]


@pytest.mark.parametrize(("endpoint", "seconds"), [("http://a.test/", 100 * PATIENCE), (None, 0.0)])
def test_nothing_is_told_of_a_quick_answer_or_of_no_endpoint(
    monkeypatch: pytest.MonkeyPatch, endpoint: str | None, seconds: float
) -> None:
    before = set(threading.enumerate())
    monkeypatch.setattr(stored, "_SILENT_SECONDS", seconds)

    with stored.asking(HERE, endpoint) as asked:
        begun = set(threading.enumerate()) - before

    for each in begun:
        each.join(PATIENCE)
        assert not each.is_alive()
    assert len(begun) == (endpoint is not None)
    assert asked == (HERE.quiet if endpoint else HERE)
