"""The options of `listen`, and its answers."""

import pytest

from cli.local.listen import Script, _as_text, _forward
from shared.events.literals import dumps
from testbed.subscriber import Push, answers, running_subscriber
from tests.commands import Run


@pytest.mark.parametrize(
    ("option", "words"),
    [(f"--port={port}", "'--port'") for port in ("65536", "x")]
    + [
        (f"--answers={answers}", f"{wrong!r} is not a final status code")
        for answers, wrong in (("x", "x"), ("199", "199"), ("200,600", "600"), ("200,", ""))
    ]
    + [
        ("--answer=999", "--answers: '999' is not a final status code"),
        ("--answer=503 --forward-to=http://a.test", "--forward-to: the endpoint answers"),
        ("--forward-to=a.test", "--forward-to must begin with http:// or https://"),
    ],
)
def test_an_invalid_option_is_refused(run: Run, option: str, words: str):
    found = run("listen", *option.split())

    assert (found.code, found.out, found.err.count("\n")) == (2, "", 1)
    assert words in found.err


def test_a_port_in_use_is_told_with_what_to_do(run: Run):
    with running_subscriber(answers(200)) as other:
        port = other.url.split(":")[2].split("/")[0]

        found = run("listen", f"--port={port}")

    assert found.code == 1
    assert f"port {port} is in use: choose another with --port" in found.err


def test_each_subscription_gets_the_answers_in_order_and_the_last_for_ever():
    script = Script("503, reset,200")

    answers = [script.next(name).text for name in ("crm", "crm", "erp", "crm", "crm")]

    assert answers == ["503", "reset", "503", "200", "200"]


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (b"\x1b[2Jno JSON", '"\\u001b[2Jno JSON"'),
        (b"\x9b31m", '"\\ufffd31m"'),
        (b'"\xc2\x9b31m"', '"\\u009b31m"'),
        (b"[" * 3_000, f'"{"[" * 3_000}"'),
    ],
    ids=["no JSON", "no UTF-8", "control character", "nested"],
)
def test_whatever_is_pushed_is_shown(body: bytes, shown: str):
    push = Push(at=0, path="/", headers={"aeg-subscription-name": "crm"}, body=body)

    (title, printed) = _as_text(push, Script("200").next("crm")).split("\n")

    assert title == "crm, attempt 1, answered 200:"
    assert printed == shown


@pytest.mark.parametrize(("length", "left_out"), [(3_998, None), (3_999, "1"), (6_998, "3,000")])
def test_of_a_long_body_the_beginning_is_shown(length: int, left_out: str | None):
    push = Push(at=0, path="/", headers={}, body=dumps("x" * length).encode())

    (_, shown, *more) = _as_text(push, Script("200").next("crm")).split("\n")

    assert len(shown) == 4_000
    assert more == ([f"… {left_out} more characters: see --json"] if left_out else [])


def test_a_push_is_passed_on_and_its_answer_shown():
    push = Push(at=0, path="/", headers={"host": "b", "aeg-delivery-count": "1"}, body=b"{}")

    with running_subscriber(answers(503, 202)) as there:
        reply = _forward(push, there.url)
        received = there.pushes[0]
    refused = _forward(push, "http://127.0.0.1:1/")

    assert reply
    assert refused
    assert (reply.text, received.body) == ("202", b"{}")
    assert received.headers["host"] != "b"
    assert refused.text == "502"
    assert "Connection refused" in _as_text(push, refused)
