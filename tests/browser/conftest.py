"""The console in a real Chromium: one browser, one host, and a page a test that may do no wrong."""

from __future__ import annotations

import importlib
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from devhost.azurite import Azurite
from devhost.process import RunningHost, running_host
from testbed.arm import ADMIN_KEY, Arm
from testbed.host_settings import host_settings
from testbed.subscriber import PATIENCE, Subscriber
from tests.commands import Run, runner
from tests.e2e.dead_letters import DeadLetters

Start = Callable[..., Subscriber]
READER_KEY = "the-reader-s-key-of-tests"
ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
_DRIVER = ROOT / ".clients" / "playwright"
_MACHINE = "x86_64"  # of the program in @sparticuz/chromium, which is for Linux


@dataclass
class Console:
    """
    The console's page in the browser; *page* is Playwright's.

    *faults* are what it must never do: break the content security policy, raise an error, ask
    another host, keep something.
    """

    page: Any
    url: str
    faults: list[str] = field(default_factory=list)

    def open(self, path: str = "") -> None:
        """Open a view signed out: *path* is the address's part after the number sign."""
        self.page.goto(f"{self.url}/console{path and f'#{path}'}")

    def sign_in(self, path: str = "", key: str = ADMIN_KEY) -> None:
        self.open(path)
        self.page.get_by_label("Admin key").fill(key)
        self.page.get_by_role("button", name="Sign in").click()

    def says(self, words: str) -> None:
        """Wait until the latest action's result has *words*."""
        self._wait(".notice", words)

    def shows(self, *words: str) -> None:
        """Wait until the view shows each of *words*, in whatever place."""
        for each in words:
            self._wait("main", each)

    def does_wrong(self, *kinds: str) -> None:
        """Wait until the page has a fault of one of *kinds*."""
        deadline = time.monotonic() + PATIENCE
        while not any(each.startswith(kinds) for each in self.faults):
            assert time.monotonic() < deadline, f"no fault but {self.faults}"
            self.page.wait_for_timeout(20)  # which lets its events arrive

    def screenshot(self, name: str) -> None:
        """Save the view for the README, if the variable SCREENSHOTS names a folder."""
        if folder := os.environ.get("SCREENSHOTS"):
            self.page.evaluate("() => document.getElementById('content').scrollTo(0, 0)")
            self.page.screenshot(path=f"{folder}/console-{name}.png")

    def watch(self) -> None:
        """Note each fault of the page."""
        page = self.page
        page.on("pageerror", lambda error: self.faults.append(f"error: {error}"))
        page.on("dialog", lambda dialog: self.faults.append(f"dialog: {dialog.message}"))
        page.on("console", self._on_line)
        page.on("request", self._on_request)
        page.expose_function("noteViolation", lambda text: self.faults.append(f"CSP: {text}"))
        page.add_init_script(
            "addEventListener('securitypolicyviolation', (event) =>"
            " noteViolation(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`))"
        )

    def kept(self) -> Any:
        """Return what the page has stored in the browser."""
        self.open()
        return self.page.evaluate(
            "() => [Object.keys(localStorage), Object.keys(sessionStorage), document.cookie]"
        )

    def _wait(self, place: str, words: str) -> None:
        found = self.page.locator(place)
        try:
            found.filter(has_text=words).wait_for()
        except Exception as error:
            raise AssertionError(f"{words!r} is not in: {found.inner_text()}") from error

    def _on_line(self, line: Any) -> None:
        is_refusal = "Failed to load resource" in line.text  # an answer of 4xx or 5xx
        if line.type in {"error", "warning"} and not is_refusal:
            self.faults.append(f"{line.type}: {line.text}")

    def _on_request(self, request: Any) -> None:
        if not request.url.startswith(f"{self.url}/"):
            self.faults.append(f"request: {request.url}")
        if ADMIN_KEY in request.url:
            self.faults.append(f"the key in an address: {request.url}")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Run Chromium: the one that the variable CHROMIUM names, or the one of `make clients`."""
    own = os.environ.get("CHROMIUM")
    if not own and (sys.platform, platform.machine()) != ("linux", _MACHINE):
        pytest.skip(f"there is a Chromium for Linux on {_MACHINE} only; name one with CHROMIUM")
    missing = [each for each in (HERE / "node_modules", _DRIVER) if not each.is_dir()]
    assert not missing, "set up by `make clients`"
    program = own or _unpacked()
    libraries = {} if own else {"LD_LIBRARY_PATH": str(Path(program).parent / "al2023" / "lib")}
    sys.path.append(str(_DRIVER))
    sync_playwright = importlib.import_module("playwright.sync_api").sync_playwright
    with sync_playwright() as driver:
        environment: dict[str, Any] = {**os.environ, **libraries}
        yield driver.chromium.launch(executable_path=program, env=environment)


def _unpacked() -> str:
    beside_python = Path(sys.executable).with_name("node")
    node = str(beside_python) if beside_python.exists() else "node"
    return subprocess.check_output([node, "unpack.js"], cwd=HERE, text=True).strip()


@pytest.fixture(scope="module")
def host(own_azurite: Azurite) -> Iterator[RunningHost]:
    """A host whose waits are short, which keeps every attempt, as `pushgrid dev` does."""
    settings = host_settings(
        own_azurite,
        PUSHGRID_TIME_SCALE="300",
        PUSHGRID_ATTEMPT_LOG="all",
        PUSHGRID_READER_KEY=READER_KEY,
    )
    with running_host(settings) as running:
        yield running


@pytest.fixture
def arm(host: RunningHost) -> Arm:
    return Arm(host.url)


@pytest.fixture
def letters(own_azurite: Azurite) -> DeadLetters:
    return DeadLetters.into_a_new_container(own_azurite)


@pytest.fixture
def pushgrid(
    host: RunningHost, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Run:
    """Run the command on the host."""
    return runner(monkeypatch, capsys, host.url, ADMIN_KEY)


@pytest.fixture
def console(browser: Any, host: RunningHost) -> Iterator[Console]:
    """Give a page of its own, in a browser that has stored nothing."""
    context = browser.new_context(viewport={"width": 1200, "height": 1000})
    context.set_default_timeout(PATIENCE * 1000)
    opened = Console(context.new_page(), host.url)
    opened.watch()
    yield opened
    kept = opened.kept()
    context.close()
    assert opened.faults == []
    assert kept == [[], [], ""]
