"""The programs of docs/sdk-*.md, with Microsoft's packages, as their pages say."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from devhost.azurite import Azurite
from devhost.process import RunningHost, running_host
from testbed.arm import Arm
from testbed.host_settings import host_settings
from testbed.subscriber import Push, Subscriber
from tests.clients.packages import (
    BESIDE_PYTHON,
    provide_go,
    provide_java,
    provide_javascript,
    require,
)
from tests.package_list import ROOT

AIOHTTP = ROOT / ".clients/aiohttp"
_PROGRAM = re.compile(r"Save this as `([\w.]+)`:\n\n```\w+\n(.*?)```\n\n```sh\n(.*?)```", re.DOTALL)


class Page(NamedTuple):
    """A page, whose programs need *tool*, and what puts their packages into a folder."""

    name: str
    tool: str
    provide: Callable[[Path], object]
    over: tuple[str, ...] = ("http", "https")


PAGES = [
    Page("python", "python", lambda _: None),
    Page("javascript", "node", provide_javascript),
    Page("java", "mvn", provide_java, ("https",)),
    Page("go", "go", provide_go, ("https",)),
    Page("curl", "curl", lambda _: None),
]


@pytest.fixture(scope="module")
def hosts(
    own_azurite: Azurite, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, RunningHost]]:
    settings = host_settings(own_azurite)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data")))
        with (
            running_host(settings) as plain,
            running_host(settings, options=["--tls"]) as secure,
        ):
            yield {"http": plain, "https": secure}


@pytest.mark.parametrize(
    ("page", "scheme"),
    [pytest.param(page, each, id=f"{page.name}-{each}") for page in PAGES for each in page.over],
)
def test_the_programs_publish(
    page: Page,
    scheme: str,
    hosts: dict[str, RunningHost],
    subscriber: Callable[..., Subscriber],
    name: str,
    tmp_path: Path,
) -> None:
    require(page.tool)
    page.provide(tmp_path)
    host, receiver = hosts[scheme], subscriber()
    with pytest.MonkeyPatch.context() as trusting:
        for variable, value in host.variables.items():
            trusting.setenv(variable, value)
        arm = Arm(host.url)
        arm.create_topic(name)
        arm.create_subscription(name, "crm", receiver.url)
        key = arm.key(name)
    environ = os.environ | host.variables
    environ |= {"PATH": f"{BESIDE_PYTHON}{os.pathsep}{environ['PATH']}"}
    environ |= {"PYTHONPATH": str(AIOHTTP)}
    environ |= {"TOPIC_ENDPOINT": f"{host.url}/topics/{name}/api/events", "TOPIC_KEY": key}
    text = (ROOT / f"docs/sdk-{page.name}.md").read_text("utf-8")
    alone = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    programs = _PROGRAM.findall(text) or [("", "", each) for each in alone]

    for number, (file, program, commands) in enumerate(programs, 1):
        if file:
            (tmp_path / file).write_text(program, encoding="utf-8")
        done = subprocess.run(
            ["/bin/sh", "-e", "-c", commands],
            cwd=tmp_path,
            env=environ,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        receiver.wait_for(partial(_are, number))

    for push in receiver.pushes:
        (event,) = push.events
        said = event["subject"], event["eventType"], event["data"], event["dataVersion"]
        assert said == ("/orders/17", "Shop.OrderPlaced", {"total": 12.5}, "1.0")
    assert len(receiver.pushes) == len(programs)


def _are(number: int, pushes: Sequence[Push]) -> bool:
    return len(pushes) >= number


def test_each_page_is_listed_and_says_if_it_is_not_run_here() -> None:
    listed = (ROOT / "docs/sdks.md").read_text("utf-8")
    pages = {path.name for path in ROOT.glob("docs/sdk-*.md")}

    assert set(re.findall(r"^\| \[.*?\]\((sdk-\w+\.md)\)", listed, re.MULTILINE)) == pages
    assert pages - {f"sdk-{page.name}.md" for page in PAGES} == {"sdk-dotnet.md"}
    assert "`make test` does not run" in (ROOT / "docs/sdk-dotnet.md").read_text("utf-8")
