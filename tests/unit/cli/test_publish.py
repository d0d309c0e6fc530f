"""The events that `pushgrid publish` makes of its options and of files, and their requests."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cli.deployment import Deployment
from cli.failure import REFUSED, CommandFailed
from tests.commands import Run


@pytest.fixture
def published(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The data of the events that are published."""
    found: list[Any] = []

    def note(_: Deployment, __: str, ___: object, body: bytes, ____: str) -> None:
        found.extend(event["data"] for event in json.loads(body))

    monkeypatch.setattr(Deployment, "publish", note)
    return found


PUBLISH = ["publish", "orders", "--key", "x"]


@pytest.mark.parametrize(
    ("options", "data"),
    [
        (['{"total": 3}'], {"total": 3}),
        (["12.5"], 12.5),
        (["null"], None),
        (["12 apples"], "12 apples"),
        ([""], ""),
        (["{bad", "--text"], "{bad"),
        (["12.5", "--text"], "12.5"),
    ],
)
def test_data_is_json_or_a_text(
    run: Run, published: list[Any], options: list[str], data: Any
) -> None:
    assert run(*PUBLISH, "--type", "a", "--data", *options).code == 0
    assert published == [data]


@pytest.mark.parametrize("data", ["{bad", " [1,", '"half'])
def test_what_begins_like_json_must_be_json(run: Run, published: list[Any], data: str) -> None:
    found = run(*PUBLISH, "--type", "a", "--data", data)

    assert (found.code, published) == (2, [])
    assert "--data: not JSON: " in found.err
    assert "for text, add --text" in found.err


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
    run: Run, published: list[Any], write: Callable[[bytes], str], between: str
) -> None:
    texts = ["a\u2028b", "c\x85d"]
    lines = [json.dumps({"type": "a", "data": text}, ensure_ascii=False) for text in texts]

    assert run(*PUBLISH, write(b"\xef\xbb\xbf" + between.join(lines).encode())).code == 0
    assert published == texts


@pytest.mark.parametrize(
    ("content", "options", "words"),
    [
        (b"\xff", [], "events.json: it is not UTF-8"),
        (b"", [], "there are no events in it"),
        (b"[]", [], "there are no events in it"),
        (b"[1]", [], "objects are wanted"),
        (b'{"type": "a"}\n{"type"', [], "line 2: not JSON"),
        (b'[{"type": "a"}, {"type": "\\ud800"}]', [], "event 2: half of a surrogate pair"),
        (b'{"type": "a"}', ["--type", "b"], "are not for a FILE"),
        (b'{"type": "a"}', ["--id", ""], "are not for a FILE"),
        (b'{"type": "a"}', ["--data", "1", "--text"], "are not for a FILE"),
    ],
)
def test_what_can_not_be_published_is_refused(
    run: Run,
    published: list[Any],
    write: Callable[[bytes], str],
    content: bytes,
    options: list[str],
    words: str,
) -> None:
    found = run(*PUBLISH, write(content), *options)

    assert (found.code, published) == (2, [])
    assert words in found.err


def test_a_failure_in_the_middle_says_what_is_published(
    run: Run,
    published: list[Any],
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

    found = run(*PUBLISH, file, "--json")

    said = "The first 5000 of 5001 events are published.\npushgrid: 400 Bad\n"
    assert (found, published) == ((1, "", said), [*range(5000)])


@pytest.mark.parametrize(
    ("topic", "key", "header"),
    [
        ("orders", "k-1", ("aeg-sas-key", "k-1")),
        ("orders", "r=https%3A%2F%2Fa&e=1&s=x", ("aeg-sas-token", "r=https%3A%2F%2Fa&e=1&s=x")),
        ("shop.orders", "k-1", ("Authorization", "SharedAccessKey k-1")),
    ],
)
def test_a_publisher_needs_no_admin_key(
    run: Run, topic: str, key: str, header: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[dict[str, str]] = []
    monkeypatch.setattr(Deployment, "publish", lambda *given: sent.append(given[2]))

    assert run("publish", topic, "--key", key, "--type", "a", "--url", "http://a.test").code == 0
    assert [header in each.items() for each in sent] == [True]


@pytest.mark.parametrize("schema", ["cloudevents", "CloudEventSchemaV1_0", "CLOUDEVENTS"])
def test_a_schema_has_a_short_and_a_long_name(run: Run, schema: str) -> None:
    create = ["subscription", "create", "crm", "-t", "orders", "--endpoint", "http://a.test"]

    shown = run(*create, "--schema", schema, "--show-json").document

    assert shown["properties"]["eventDeliverySchema"] == "CloudEventSchemaV1_0"
