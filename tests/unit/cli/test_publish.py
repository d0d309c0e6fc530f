"""The data that `pushgrid publish` makes of its option --data."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cli import publish
from cli.deployment import Deployment
from cli.program import main


@pytest.fixture
def published(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The data of the events that are published."""
    found: list[Any] = []

    def note(_: Deployment, __: str, ___: object, body: bytes) -> None:
        found.extend(event["data"] for event in json.loads(body))

    target = publish._Target("http://127.0.0.1:1", ("aeg-sas-key", "x"), "eventgrid")
    monkeypatch.setattr(publish, "_target", lambda *_: target)
    monkeypatch.setattr(Deployment, "publish", note)
    return found


@pytest.mark.parametrize(
    ("options", "data"),
    [
        (['{"total": 3}'], {"total": 3}),
        (["[1]"], [1]),
        (["12.5"], 12.5),
        (["null"], None),
        (["hello"], "hello"),
        (["12 apples"], "12 apples"),
        ([""], ""),
        (["{bad", "--text"], "{bad"),
        (["12.5", "--text"], "12.5"),
    ],
)
def test_data_is_json_or_a_text(published: list[Any], options: list[str], data: Any) -> None:
    assert main(["publish", "orders", "--key", "x", "--type", "a", "--data", *options]) == 0
    assert published == [data]


@pytest.mark.parametrize("data", ["{bad", " [1,", '"half', "{'single': 1}"])
def test_what_begins_like_json_must_be_json(
    published: list[Any], capsys: pytest.CaptureFixture[str], data: str
) -> None:
    assert main(["publish", "orders", "--key", "x", "--type", "a", "--data", data]) == 2

    assert published == []
    assert "--data: not JSON: " in (said := capsys.readouterr().err)
    assert "for a text, add --text" in said


def test_attempts_beyond_the_limit_are_refused_before_anything_is_sent(
    capsys: pytest.CaptureFixture[str],
) -> None:
    create = ["subscription", "create", "crm", "-t", "orders", "--endpoint", "http://a.test"]

    assert main([*create, "--max-attempts", "50", "--show-json", "--key", "x"]) == 2
    assert "1<=x<=30" in capsys.readouterr().err
