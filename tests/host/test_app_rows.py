"""Row A1: Pushgrid itself, as it is uploaded."""

from __future__ import annotations

import shutil
from pathlib import Path

from devhost.azurite import Azurite
from testbed.arm import Arm
from testbed.host_settings import host_settings
from testbed.subscriber import running_subscriber
from tests.e2e.publishing import an_event, ids, send
from tests.host.app import App
from tests.host.running import running
from tests.package_list import ROOT, package_list


class _Pushgrid(App):
    """The uploaded files; their local.settings.json names the worker alone."""

    def host_json(self, **_: object) -> None:
        for path in package_list():
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / path, self.root / path)


def test_a01_a_published_event_is_delivered(azurite: Azurite, tmp_path: Path):
    """A1: the uploaded files start, and an event on a topic reaches its subscriber."""
    event = an_event()
    with running_subscriber() as crm, running(_Pushgrid(tmp_path), host_settings(azurite)) as host:
        arm = Arm(f"http://127.0.0.1:{host.port}")
        arm.create_topic("on-another-host")
        arm.create_subscription("on-another-host", "crm", crm.url)
        send(arm.url, "on-another-host", arm.key("on-another-host"), [event])

        assert crm.wait_for(lambda pushes: len(pushes) >= 1), host.said()

    assert ids(crm.pushes) == {event.id}
