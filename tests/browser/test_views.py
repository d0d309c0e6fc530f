"""What belongs to one view, topic or operator is not mixed with what belongs to another."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from testbed.arm import Arm
from testbed.subscriber import Reply
from tests.browser.conftest import READER_KEY, Console, Start
from tests.browser.test_usability import suits_everybody

AT = "2026-02-09T12:00:00Z"
NEWEST = re.compile(r"/deadLetters\?.*top=20$")
OLDER = re.compile(r"/deadLetters\?.*skipToken=")
RECORDS = re.compile(r"/deadLetters/records\?")
FORECAST = re.compile(r"/forecast\?")
CONFIGURATION = re.compile(r"/eventSubscriptions/crm\?")
TEST = re.compile(r"/test\?")
CERTIFICATE = {
    "subject": "CN=hook",
    "issuer": "CN=authority",
    "validUntil": AT,
    "matchesHost": False,
    "names": ["hook.example"],
}
TESTED = {
    "at": AT,
    "seconds": 0.5,
    "succeeded": False,
    "outcome": "GenericError",
    "request": {"method": "POST", "url": "https://hook.example", "headers": {}, "body": ""},
    "peer": {"address": "192.0.2.1", "certificate": CERTIFICATE},
}
LETTER = {"reason": "MaxDeliveryAttemptsExceeded", "attempts": None, "event": {"id": "late"}}
FORECASTED = {
    "edition": "Basic",
    "profile": "basic",
    "timeScale": 1,
    "attempts": [],
    "end": {"state": "delivered", "at": 1, "reason": None, "blobAt": None},
}


def blobs(*names: str) -> dict[str, Any]:
    """Return a page of the list of dead-letter blobs, with more after it."""
    listed: list[dict[str, Any]] = [
        {"blob": each, "writtenAt": AT, "events": 1, "reasons": {}, "fault": None} for each in names
    ]
    more = "https://host.example/?$skiptoken=more"
    return {"account": "a", "container": "c", "value": listed, "nextLink": more}


# A button, what it asks for, the answer, and words of it that the view shows.
ASKED: list[tuple[str, re.Pattern[str], dict[str, Any], str]] = [
    ("Send a test event", TEST, TESTED, "it is not for this host (hook.example)"),
    ("Show new.json", RECORDS, {"blob": "new.json", "value": [LETTER]}, "MaxDeliveryAttempts"),
    ("Show older ones", OLDER, blobs("new.json", "older.json"), "older.json"),
    ("Forecast", FORECAST, FORECASTED, "Delivery profile basic"),
]


def held(page: Any, address: re.Pattern[str]) -> Callable[[Any], None]:
    """Hold requests to *address*; the function answers the one that waits, and holds no more."""
    waiting: list[Any] = []
    page.route(address, lambda route: waiting.append(route))  # noqa: PLW0108 - it gets an attribute

    def answer(document: Any) -> None:
        waiting.pop().fulfill(body=json.dumps(document))
        page.unroute(address)
        page.wait_for_timeout(100)  # in which it would be shown

    return answer


def test_what_was_begun_on_one_view_is_not_shown_on_another(
    console: Console, arm: Arm, subscriber: Start, name: str
) -> None:
    arm.create_topic(name)
    for each in ("first", "second"):
        arm.create_subscription(name, each, subscriber().url)
    page = console.page
    page.route(NEWEST, lambda route: route.fulfill(body=json.dumps(blobs("new.json"))))
    console.sign_in(f"/topics/{name}/first")

    def press(button: str, address: re.Pattern[str]) -> Callable[[Any], None]:
        answer = held(page, address)
        with page.expect_request(address):
            page.get_by_role("button", name=button).click()
        return answer

    def visit(subscription: str) -> None:
        page.evaluate(f"() => {{ location.hash = '#/topics/{name}/{subscription}' }}")
        page.get_by_role("heading", name=subscription, level=1).wait_for()

    for button, address, document, words in ASKED:
        answer = press(button, address)
        visit("second")
        assert page.get_by_role("button", name=button).is_enabled()
        answer(document)
        assert page.locator(".notice").inner_text() == ""
        assert words not in page.locator("main").inner_text()

        visit("first")
        press(button, address)(document)
        console.shows(words)
        assert "null" not in page.locator("main").inner_text()  # what the API does not know
        assert page.get_by_role("button", name="Show new.json").count() == 1  # it is in both pages

    page.get_by_role("button", name="Replay all").click()
    page.get_by_role("dialog").wait_for()
    visit("second")
    assert page.get_by_role("dialog").count() == 0


def test_a_button_that_a_read_moves_while_it_is_pressed_does_what_it_says(
    console: Console, arm: Arm, subscriber: Start, name: str
) -> None:
    arm.create_topic(name)
    arm.create_subscription(name, "crm", subscriber().url)
    page = console.page
    waiting: list[Any] = []
    page.route(CONFIGURATION, lambda route: waiting.append(route))  # noqa: PLW0108 - as above
    with page.expect_request(CONFIGURATION):
        console.sign_in(f"/topics/{name}/crm")
    button = page.get_by_role("button", name="Forecast")
    button.hover()
    page.mouse.down()
    while not button.evaluate("each => each.matches(':active')"):  # another read has moved it
        page.mouse.move(0, 0)
        page.mouse.up()
        button.hover()
        page.mouse.down()
    before = button.bounding_box()
    with page.expect_response(CONFIGURATION):
        waiting.pop().continue_()
    page.wait_for_timeout(100)  # in which it would be shown
    assert button.bounding_box() == before
    page.mouse.up()
    console.says("The forecast is ready.")
    console.shows("This command changes it")
    page.unroute(CONFIGURATION)


def test_signing_out_and_reloading_forget_everything(
    console: Console, arm: Arm, subscriber: Start, name: str
) -> None:
    arm.create_topic(name)
    arm.create_subscription(name, "crm", subscriber().url)
    page = console.page
    for leave in (lambda: page.get_by_role("button", name="Sign out").click(), page.reload):
        console.sign_in(f"/topics/{name}/crm")
        page.get_by_role("button", name="Forecast").click()
        console.says("The forecast is ready.")
        answer = held(page, TEST)
        with page.expect_request(TEST):
            page.get_by_role("button", name="Send a test event").click()
        leave()
        page.get_by_label("Admin key").wait_for()
        answer(TESTED)
        assert page.get_by_label("Admin key").input_value() == ""
        assert name not in page.content()
        assert page.evaluate(
            """async () => {
              const { state } = await import("/console/store.js");
              return [state.api, state.reads, state.view, state.notice, state.running];
            }"""
        ) == [None, {}, {}, None, ""]


def test_what_was_asked_for_before_an_action_or_another_view_is_not_kept(console: Console) -> None:
    console.open()
    console.page.get_by_label("Admin key").wait_for()

    shown = console.page.evaluate(
        """async () => {
          const { keepReading, run, state } = await import("/console/store.js");
          const answers = [];
          const load = () => new Promise((resolve) => answers.push(resolve));
          const asked = async (count) => {
            while (answers.length < count) await new Promise((resolve) => setTimeout(resolve));
          };
          keepReading({ events: [load, 0] });
          await asked(1);
          await run("pause", async () => "Paused.");
          answers[0]("before");
          await asked(2);
          const after = state.reads.events?.value ?? null;
          answers[1]("after");
          await asked(3);
          const { value } = state.reads.events;
          keepReading({});
          answers[2]("of another view");
          await new Promise((resolve) => setTimeout(resolve));
          return [after, value, state.reads];
        }"""
    )

    assert shown == [None, "after", {}]


def test_times_to_answer_are_averaged_over_topics(console: Console) -> None:
    console.open()

    values = console.page.evaluate(
        """async () => {
          const { together } = await import("/console/charts.js");
          const of = (value) => ["total", "average"].map((aggregation) =>
            ({ aggregation, points: [{ at: 0, value }] }));
          return together([of(10), of(0), of(30)]).map(({ points }) => points[0].value);
        }"""
    )

    assert values == [40, 20]


def test_a_reader_sees_no_button_that_would_be_refused(
    console: Console, arm: Arm, subscriber: Start, name: str
) -> None:
    arm.create_topic(name)
    arm.create_subscription(name, "crm", subscriber().url)
    page = console.page

    console.sign_in(f"/topics/{name}/crm", READER_KEY)
    console.shows("Configuration", "Dead letters", "There are no replays")

    assert page.get_by_role("button").all_inner_texts() == ["Sign out", "Forecast"]
    page.get_by_role("link", name=name, exact=True).first.click()
    console.shows("Subscriptions", "crm")
    assert page.get_by_role("button").all_inner_texts() == ["Sign out"]

    page.get_by_role("button", name="Sign out").click()
    console.sign_in(f"/topics/{name}/crm")
    console.shows("Does it match?", "Replay all …")
    expected = ["Pause", "Release", "Send a test event to the endpoint", "Replay all …"]
    assert {*expected} <= {*page.get_by_role("button").all_inner_texts()}
    assert console.faults == []


def test_a_subscription_without_consent_says_why_and_what_to_do(
    console: Console, arm: Arm, subscriber: Start, name: str
) -> None:
    """To a reader as well: the texts are ours, and hold nothing that the endpoint has said."""
    arm.create_topic(name)
    says_secret = subscriber(consent=lambda _: Reply(200, b'["s3cret"]'))
    told = arm.create_subscription(name, "crm", says_secret.url)["properties"]["pushgridValidation"]

    console.sign_in(f"#/topics/{name}/crm", READER_KEY)
    console.shows("awaiting validation", told["why"], told["remedy"])
    suits_everybody(console)
    console.page.goto(f"{console.url}/console#/")
    console.shows(told["why"], f"Remedy: {told['remedy']}")
    suits_everybody(console)

    assert "s3cret" not in console.page.content()
