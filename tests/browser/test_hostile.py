"""What comes from outside is text, whatever it says: events, answers, addresses."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from devhost.azurite import Azurite
from testbed.arm import Arm
from tests.browser.conftest import Console
from tests.e2e.dead_letters import DeadLetters
from tests.e2e.publishing import post

MARKUP = "<img src=x onerror=alert(1)><script>alert(2)</script><b onclick='alert(3)'>\"'&amp;"
REFUSED = 400


class _Hostile(BaseHTTPRequestHandler):
    """Consents, then refuses events with markup in its headers and in its body."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.headers["aeg-event-type"] == "SubscriptionValidation":
            code = body[0]["data"]["validationCode"]
            self._reply(200, json.dumps({"validationResponse": code}))
        else:
            self._reply(REFUSED, MARKUP)

    def _reply(self, status: int, body: str) -> None:
        self.send_response(status)
        self.send_header("x-markup", MARKUP)
        self.send_header("Content-Length", str(len(body.encode())))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture
def hostile() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Hostile)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/"
    server.shutdown()
    thread.join()
    server.server_close()


def test_markup_from_outside_is_shown_as_text(
    console: Console, arm: Arm, hostile: str, own_azurite: Azurite, name: str
) -> None:
    arm.create_topic(name)
    destination = DeadLetters.into_a_new_container(own_azurite).destination
    arm.create_subscription(name, "crm", hostile, deadLetterDestination=destination)
    event = {
        "id": MARKUP,
        "subject": MARKUP,
        "eventType": MARKUP,
        "eventTime": "2026-02-09T12:00:00Z",
        "data": {MARKUP: MARKUP},
        "dataVersion": "1",
    }
    assert post(console.url, name, arm.key(name), json.dumps([event]).encode()).ok
    console.sign_in(f"/topics/{name}/crm")
    page = console.page

    console.shows("400 BadRequest", MARKUP)
    page.get_by_role("button", name="Send a test event").click()
    console.says("did not accept")
    page.get_by_role("button", name="Show CRM").click()
    console.says("Showing 1 dead letter.")

    # The answer of the test, and that of the attempt: in its timeline and beside the dead letter.
    assert page.locator("pre", has_text=MARKUP).count() == 3
    assert page.locator("pre", has_text=json.dumps(MARKUP)).count() == 1  # the dead letter
    assert page.locator("main img, main script, main b, main iframe").count() == 0
    page.get_by_role("link", name="Pushgrid").click()
    console.shows(MARKUP)


@pytest.mark.parametrize(
    "path", [f"/topics/{MARKUP}/{MARKUP}", "/topics/%E0%A4%A/x", "/topics//", "javascript:alert(1)"]
)
def test_an_address_is_text_as_well(console: Console, path: str) -> None:
    console.sign_in(path)
    page = console.page

    page.get_by_role("heading", level=1).wait_for()
    page.locator(".panel").first.wait_for()
    assert page.locator("main img, main script, main b").count() == 0


ATTACKS = {
    "markup": "body.innerHTML = '<b>markup</b>'",
    "code": "setTimeout('alert(1)')",
    "style": "body.setAttribute('style', 'color: red')",
    "image": "body.appendChild(document.createElement('img')).src = 'http://127.0.0.1:1/'",
    "request": "fetch('http://127.0.0.1:1/')",
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_the_policy_stops_what_would_get_through(console: Console, attack: str) -> None:
    """The control of all other tests: such a fault is noticed."""
    console.open()
    console.page.get_by_label("Admin key").wait_for()

    with suppress(Exception):  # of Playwright: some attacks raise where they are made
        console.page.evaluate(f"() => {{ const {{ body }} = document; {ATTACKS[attack]} }}")

    console.does_wrong("CSP", "error")
    console.open()  # after all that this page has done wrong
    console.faults.clear()
