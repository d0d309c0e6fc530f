"""The files that run `pushgrid serve` as a service, read by the tools that they are for."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from cli.serve import serve_command
from server.http.connections import ConnectionLimits
from server.process import LONGEST_END
from tests.package_list import ROOT
from tests.server.memory_home import MemoryHome

UNIT, NGINX, CADDY = (
    ROOT / "service" / name for name in ("pushgrid.service", "nginx.conf", "Caddyfile")
)


def run(*command: str | Path) -> str:
    """Run a tool; return what it says, or skip the test where it is not installed."""
    if not shutil.which(command[0]):
        pytest.skip(f"{command[0]} is not installed")
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout + ended.stderr


def values(name: str) -> list[str]:
    return re.findall(rf"^{name}=(.*)$", UNIT.read_text(), re.MULTILINE)


def test_the_unit_runs_a_command_with_options_that_it_has():
    program, command, *options = shlex.split(values("ExecStart")[0])
    given = serve_command(MemoryHome, "3.51.3").make_context(command, options).params

    assert (Path(program).name, command) == ("pushgrid", "serve")
    # systemd makes the folder of this name below /var/lib, for the service's user alone.
    assert given["data"] == Path("/var/lib") / values("StateDirectory")[0]
    assert values("RestartPreventExitStatus") == ["2"]


def test_whoever_stops_it_waits_longer_than_it_takes():
    seconds = int(values("TimeoutStopSec")[0])
    compose = re.search(r"stop_grace_period: (\d+)s", (ROOT / "compose.yaml").read_text())

    assert seconds > LONGEST_END
    assert compose
    assert int(compose[1]) > LONGEST_END


def test_systemd_reads_the_unit_and_finds_it_confined(tmp_path):
    program = tmp_path / "pushgrid"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace("/opt/pushgrid/bin/pushgrid", str(program)))

    assert run("systemd-analyze", "verify", unit) == ""
    run("systemd-analyze", "security", "--offline=yes", "--threshold=20", unit)


def test_nginx_reads_its_file(tmp_path):
    text = NGINX.read_text()
    text = re.sub(r"^  (ssl_certificate|listen \[).*\n", "", text, flags=re.MULTILINE)
    text = text.replace("listen 443 ssl", "listen 127.0.0.1:1443").replace(
        "  ssl_certificate_key", "#"
    )
    paths = "".join(
        f"{each}_temp_path {tmp_path}/{each};"
        for each in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    whole = tmp_path / "nginx.conf"
    whole.write_text(
        f"pid {tmp_path}/pid; events {{}} http {{ access_log off; {paths}\n{text}\n}}\n"
    )

    assert "syntax is ok" in run("nginx", "-t", "-e", "stderr", "-c", whole)


def test_caddy_reads_its_file():
    assert "Valid configuration" in run(
        "caddy", "validate", "--config", CADDY, "--adapter", "caddyfile"
    )
    run("caddy", "fmt", "--diff", CADDY)


def test_proxies_let_go_of_connections_before_the_server_does():
    (nginx,) = re.findall(r"keepalive_timeout (\d+)s", NGINX.read_text())
    (caddy,) = re.findall(r"keepalive (\d+)s", CADDY.read_text())

    assert max(int(nginx), int(caddy)) < ConnectionLimits(1).keep_alive_seconds
