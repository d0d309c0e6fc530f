"""The events that `pushgrid publish` makes of its options and of files, and their requests."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cli import publish
from cli.deployment import Deployment
from cli.failure import REFUSED, CommandFailed
from cli.program import main


@pytest.fixture
def published(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The data of the events that are published."""
    found: list[Any] = []

    def note(_: Deployment, __: str, ___: object, body: bytes, ____: str) -> None:
        found.extend(event["data"] for event in json.loads(body))

    target = publish._PublishUrl("http://127.0.0.1:1", ("aeg-sas-key", "x"), "EventGridSchema")
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
    assert main(["publish", "orders", "--admin-key", "x", "--type", "a", "--data", *options]) == 0
    assert published == [data]


@pytest.mark.parametrize("data", ["{bad", " [1,", '"half', "{'single': 1}"])
def test_what_begins_like_json_must_be_json(
    published: list[Any], capsys: pytest.CaptureFixture[str], data: str
) -> None:
    assert main(["publish", "orders", "--admin-key", "x", "--type", "a", "--data", data]) == 2

    assert published == []
    assert "--data: not JSON: " in (said := capsys.readouterr().err)
    assert "for text, add --text" in said


@pytest.fixture
def write(tmp_path: Path) -> Callable[[bytes], str]:
    """Write a file of events; return its path."""

    def written(content: bytes) -> str:
        path = tmp_path / "events.json"
        path.write_bytes(content)
        return str(path)

    return written


@pytest.mark.parametrize("between", ["\n", "\r\n", "\n\n"])
def test_a_line_ends_only_where_json_lines_do(
    published: list[Any], write: Callable[[bytes], str], between: str
) -> None:
    texts = ["a\u2028b", "c\x85d"]
    lines = [json.dumps({"type": "a", "data": text}, ensure_ascii=False) for text in texts]

    file = write(b"\xef\xbb\xbf" + between.join(lines).encode())

    assert main(["publish", "orders", file, "--key", "x"]) == 0
    assert published == texts


@pytest.mark.parametrize(
    ("content", "options", "words"),
    [
        (b"\xff", [], "events.json: it is not UTF-8"),
        (b"", [], "there are no events in it"),
        (b"[]", [], "there are no events in it"),
        (b"[1]", [], "objects are wanted"),
        (b'{"type": "a"}\n{"type"', [], "line 2: no JSON"),
        (b'[{"type": "a"}, {"type": "\\ud800"}]', [], "event 2: half of a surrogate pair"),
        (b'{"type": "a"}', ["--type", "b"], "are not for a FILE"),
        (b'{"type": "a"}', ["--id", ""], "are not for a FILE"),
        (b'{"type": "a"}', ["--data", "1", "--text"], "are not for a FILE"),
    ],
)
def test_what_can_not_be_published_is_refused(
    published: list[Any],
    capsys: pytest.CaptureFixture[str],
    write: Callable[[bytes], str],
    content: bytes,
    options: list[str],
    words: str,
) -> None:
    assert main(["publish", "orders", write(content), *options, "--key", "x"]) == 2

    assert published == []
    assert words in capsys.readouterr().err


def test_a_failure_in_the_middle_says_what_is_published(
    published: list[Any],
    capsys: pytest.CaptureFixture[str],
    write: Callable[[bytes], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    publish_one = Deployment.publish

    def refuse_later(*arguments: Any) -> None:
        if published:
            raise CommandFailed("400 Bad", REFUSED)
        publish_one(*arguments)

    monkeypatch.setattr(Deployment, "publish", refuse_later)
    file = write(json.dumps([{"type": "a", "data": i} for i in range(5001)]).encode())

    assert main(["publish", "orders", file, "--key", "x", "--json"]) == 1

    out, err = capsys.readouterr()
    assert published == [*range(5000)]
    assert (out, err) == ("", "The first 5000 of 5001 events are published.\npushgrid: 400 Bad\n")


@pytest.mark.parametrize(
    ("topic", "key", "header"),
    [
        ("orders", "k-1", ("aeg-sas-key", "k-1")),
        ("orders", "r=https%3A%2F%2Fa&e=1&s=x", ("aeg-sas-token", "r=https%3A%2F%2Fa&e=1&s=x")),
        ("shop.orders", "k-1", ("Authorization", "SharedAccessKey k-1")),
    ],
)
def test_a_publisher_needs_no_admin_key(
    topic: str, key: str, header: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[dict[str, str]] = []
    monkeypatch.setattr(Deployment, "publish", lambda *given: sent.append(given[2]))

    assert main(["publish", topic, "--key", key, "--type", "a", "--url", "http://a.test"]) == 0

    assert [header in each.items() for each in sent] == [True]


@pytest.mark.parametrize("schema", ["cloudevents", "CloudEventSchemaV1_0", "CLOUDEVENTS"])
def test_a_schema_has_a_short_and_a_long_name(
    schema: str, capsys: pytest.CaptureFixture[str]
) -> None:
    create = ["subscription", "create", "crm", "-t", "orders", "--endpoint", "http://a.test"]

    assert main([*create, "--schema", schema, "--show-json", "--admin-key", "x"]) == 0

    found = json.loads(capsys.readouterr().out)["properties"]["eventDeliverySchema"]
    assert found == "CloudEventSchemaV1_0"
