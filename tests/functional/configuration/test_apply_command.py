"""What `pushgrid apply` prints, on the management API in memory."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from cli.deployment import Deployment
from cli.failure import CommandFailed
from pushgrid.testing.memory import answered
from testbed.subscriber import PATIENCE
from tests.functional.configuration.conftest import Apply, Write
from tests.functional.manage.arm_api import URL, ArmApi, hook, push
from tests.unit.arm.documents import dead_letter
from tests.unit.cli.configuration.test_template import TOPIC, template

SHOP = Path(__file__).parents[2] / "data" / "configuration" / "shop.json"
ONE = {"topics": {"orders": {"eventSubscriptions": {"crm": hook()}}}}


def test_a_compiled_template_is_applied_with_its_parameters(
    deployment: Deployment, apply: Apply, write: Write
) -> None:
    receivers = [{"name": "crm", "url": URL, "prefixes": ["/orders/"]}]
    values = {"environment": {"value": "test"}, "receivers": {"value": receivers}}
    parameters = write({"parameters": values}, "parameters.json")
    options = ("--parameters", parameters, "--parameter", "location=westeurope")

    first, second = apply(SHOP, *options), apply(SHOP, *options)

    assert (first[0], first[2]) == (0, "")
    assert first[1][-3:] == [
        "left out: Microsoft.Storage/storageAccounts, line 108",
        "left out: Microsoft.EventGrid/eventSubscriptions, line 218",
        "6 created.",
    ]
    assert second[1][-1] == f"Nothing to change: the deployment is as {SHOP} says."
    assert deployment.get("topics/orders-test")["location"] == "westeurope"
    crm = deployment.get("topics/orders-test/eventSubscriptions/crm")
    assert crm["properties"]["labels"] == ["OrderPlaced", "OrderCancelled"]


def test_a_consent_that_is_still_pending_is_told_each_time(
    api: ArmApi, apply: Apply, write: Write
) -> None:
    api.pusher.script(URL, answered(200))
    file = write(ONE)
    warning = "    warning: The endpoint answered 200 without the validation code. It has to "

    first, second = apply(file), apply(file)

    crm = "event subscription orders/crm"
    nothing = f"Nothing to change: the deployment is as {file} says."
    code, (topic, created, told, count), _ = first
    assert told.startswith(warning)
    assert (code, topic, created, count) == (0, "+ topic orders", f"+ {crm}", "2 created.")
    assert second == (0, [f"= {crm}", told, nothing], "")


def test_a_filter_that_hardly_matches_is_told_each_time(apply: Apply, write: Write) -> None:
    crm = hook(filter={"includedEventTypes": ["Placed "]})
    wrong = {"topics": {"orders": {"eventSubscriptions": {"crm": crm}}}}

    apply(write(ONE))
    file = write(wrong)
    _, planned, _ = apply(file, "--dry-run")
    _, done, _ = apply(file)
    _, again, _ = apply(file)

    warning = "    warning: includedEventTypes has 'Placed ', with a blank around it"
    for lines in (planned, done, again):
        assert sum(each.startswith(warning) for each in lines) == 1
    assert [each for each in planned if each.startswith("    ")] == [
        '    properties.filter.includedEventTypes: nothing → ["Placed "]',
        planned[2],
    ]


LOST: Any = {"deadLetterDestination": dead_letter()}
OF_TOPIC = {"topics": {"orders": {"eventSubscriptions": {"crm": hook(**LOST)}}}}
OF_NAMESPACE = {
    "namespaces": {"shop": {"topics": {"orders": {"eventSubscriptions": {"crm": push(**LOST)}}}}}
}


@pytest.mark.parametrize("content", [OF_TOPIC, OF_NAMESPACE], ids=["topic", "namespace"])
def test_a_dead_letter_container_that_is_missing_is_told_each_time(
    api: ArmApi, apply: Apply, write: Write, content: object
) -> None:
    api.dead_letters.missing.add("dead")
    file = write(content)

    first, second = apply(file), apply(file)

    until = "until you create it, events that are given up are dropped"
    warning = f"    warning: there is no container 'dead'; {until}"
    assert [lines.count(warning) for _, lines, _ in (first, second)] == [1, 1]
    api.dead_letters.missing.clear()
    assert warning not in apply(file)[1]


def test_a_location_that_the_file_does_not_name_stays(
    deployment: Deployment, apply: Apply, write: Write
) -> None:
    deployment.put("topics/orders", {"location": "westeurope", "properties": {}})

    code, lines, _ = apply(write({"topics": {"orders": {}}}))

    assert (code, len(lines)) == (0, 1)
    assert lines[0].startswith("Nothing to change: ")
    assert deployment.get("topics/orders")["location"] == "westeurope"


def test_what_is_refused_stands_with_its_reason_on_one_stream(apply: Apply, write: Write) -> None:
    wrong = write({"topics": {"orders": {"tags": {"deliveryProfile": "1999"}}}})

    code, lines, err = apply(wrong)
    as_json, document, no_error = apply(wrong, "--json")

    head, reason = err.splitlines()
    assert (code, lines, head) == (1, ["1 refused."], "! topic orders")
    assert reason.startswith(f"{wrong}:")
    assert "There is no delivery profile '1999'" in reason
    (change,) = json.loads("\n".join(document))["changes"]
    assert (as_json, no_error, change["action"], change["faults"]) == (1, "", "create", [reason])


@pytest.mark.parametrize("empty", [{}, {"topics": {}}])
def test_a_file_that_names_nothing_deletes_nothing(apply: Apply, write: Write, empty: Any) -> None:
    apply(write(ONE))

    code, lines, err = apply(write(empty), "--prune")

    assert (code, lines) == (2, [])
    assert "names no resource, so --prune would delete everything" in err
    assert apply(write(ONE))[1][0].startswith("Nothing to change")


def test_a_dry_run_says_what_would_happen(apply: Apply, write: Write) -> None:
    apply(write(ONE))
    more = {"topics": {"orders": {"tags": {"a": "b"}}, "others": {}}}

    code, lines, _ = apply(write(more), "--dry-run", "--prune")

    assert code == 0
    assert lines == [
        "~ topic orders",
        '    tags: nothing → {"a": "b"}',
        "+ topic others",
        "- event subscription orders/crm",
        "Dry run: 1 to create, 1 to update, 1 to delete.",
    ]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("[]", ":1: this is not a parameter file"),
        ('{"a": 1}', ":1: this is not a parameter file"),
        ('{"parameters": {"a": {"other": 1}}}', ":1: this is not a parameter file"),
    ],
)
def test_a_file_without_values_of_parameters_is_refused(
    apply: Apply, write: Write, content: str, words: str
) -> None:
    parameters = write(content, "parameters.json")

    code, lines, err = apply(write(ONE), "--parameters", parameters)

    assert (code, lines) == (2, [])
    assert err.startswith(f"{parameters}{words}")


def test_a_secret_of_a_key_vault_is_refused_if_it_is_used(apply: Apply, write: Write) -> None:
    vault = {"reference": {"keyVault": {"id": "x"}, "secretName": "y"}}
    parameters = write({"parameters": {"Label": vault, "unused": vault}}, "parameters.json")
    topic = {
        "type": TOPIC,
        "name": "orders",
        "tags": {"label": "[parameters('label')]"},
    }
    known = {name: {"type": "string"} for name in ("label", "unused")}
    file = write(template(topic, parameters=known), "main.json")

    code, lines, err = apply(file, "--parameters", parameters)

    assert (code, lines) == (2, [])
    assert err.startswith(f"{parameters}:")
    assert "parameters.Label: key vaults are not read: use --parameter Label=…" in err
    assert apply(file, "--parameters", parameters, "--parameter", "label=a")[0] == 0


def test_a_dry_run_says_what_it_can_not_check(apply: Apply, write: Write) -> None:
    subscription: dict[str, object] = {"properties": {}}
    wrong = {"topics": {"orders": {"eventSubscriptions": {"crm": subscription}}}}

    code, lines, _ = apply(write(wrong), "--dry-run")

    assert code == 0
    assert lines == [
        "+ topic orders",
        "+ event subscription orders/crm",
        "Dry run: 2 to create.",
        "1 not checked: what they need does not exist yet.",
    ]
    (_, change) = json.loads("\n".join(apply(write(wrong), "--dry-run", "--json")[1]))["changes"]
    assert change["warnings"] == ["not checked: what it needs does not exist yet"]
    assert "not checked" not in "\n".join(apply(write(ONE))[1])


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Python leaves SIGINT ignored in a shell's background jobs."""
    inherited = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, inherited)


@pytest.mark.usefixtures("interruptible")
def test_an_interruption_does_not_wait_for_a_handshake(
    apply: Apply, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C while an endpoint is asked."""
    has_ended = Event()
    was_waited_for: list[str] = []
    put = Deployment.put

    def wait(self: Deployment, path: str, *arguments: Any) -> Any:
        if "eventSubscriptions" in path:
            main_thread = threading.main_thread().ident
            assert main_thread
            signal.pthread_kill(main_thread, signal.SIGINT)
            if not has_ended.wait(PATIENCE):
                was_waited_for.append(path)
            raise CommandFailed("nobody waits for it")
        return put(self, path, *arguments)

    monkeypatch.setattr(Deployment, "put", wait)
    try:
        code, lines, err = apply(write(ONE))
    finally:
        has_ended.set()

    assert not was_waited_for
    assert (code, lines) == (130, ["+ topic orders"])
    assert "interrupted; done: 1;" in err
