"""systemd hears of states, by a path or by a name that is in no file system."""

from __future__ import annotations

import socket
import sys

import pytest

from server.sd_notify import READY, ServiceManager


@pytest.mark.parametrize("is_abstract", [False, True])
def test_states_are_sent_to_the_socket_that_is_named(tmp_path, is_abstract):
    if is_abstract and not sys.platform.startswith("linux"):
        pytest.skip("Linux' own")
    path = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(f"\0{path}" if is_abstract else path)
        ServiceManager(f"@{path}" if is_abstract else path).tell(READY, "STATUS=x")

        assert manager.recv(100) == b"READY=1\nSTATUS=x"


@pytest.mark.parametrize("address", [None, "", "/nowhere/notify"])
def test_without_a_service_manager_nothing_happens(address):
    ServiceManager(address).tell(READY)
