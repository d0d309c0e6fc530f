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

UNIT, INSTANCES, NGINX, CADDY = (
    ROOT / "service" / name
    for name in ("pushgrid.service", "pushgrid@.service", "nginx.conf", "Caddyfile")
)
UNITS = pytest.mark.parametrize("unit", [UNIT, INSTANCES], ids=lambda unit: unit.stem)
#: Caddy in front of several servers.
SERVERS = ROOT / "docker/servers.Caddyfile"


def run(*command: str | Path) -> str:
    """Run a tool; return what it says, or skip the test where it is not installed."""
    if not shutil.which(command[0]):
        pytest.skip(f"{command[0]} is not installed")
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout + ended.stderr


def values(name: str, unit: Path = UNIT) -> list[str]:
    return re.findall(rf"^{name}=(.*)$", unit.read_text(), re.MULTILINE)


def test_the_unit_runs_a_command_with_options_that_it_has():
    program, command, *options = shlex.split(values("ExecStart")[0])
    given = serve_command(MemoryHome, "3.51.3").make_context(command, options).params

    assert (Path(program).name, command) == ("pushgrid", "serve")
    # systemd makes the folder of this name below /var/lib, for the service's user alone.
    assert given["data"] == Path("/var/lib") / values("StateDirectory")[0]
    assert values("RestartPreventExitStatus") == ["2"]


def test_an_instance_on_postgresql_is_confined_alike_and_tries_again():
    """Its database may be away at a start; its secrets are files that root alone reads."""
    _, command, *options = shlex.split(values("ExecStart", INSTANCES)[0].replace("%i", "7071"))
    secrets = dict(
        each.split("=") for each in values("Environment", INSTANCES)[0].replace("%d", "D").split()
    )
    loaded = {each.split(":")[0] for each in values("LoadCredential", INSTANCES)}
    given = serve_command(MemoryHome, "3.51.3").make_context(command, options).params

    assert (given["port"], given["data"], given["store"]) == (7071, None, None)
    assert secrets == {"PUSHGRID_STORE_FILE": "D/store", "PUSHGRID_ADMIN_KEY_FILE": "D/admin-key"}
    assert loaded == {"store", "admin-key"}
    assert values("RestartPreventExitStatus", INSTANCES) == []
    assert values("StartLimitIntervalSec", INSTANCES) == ["0"]
    _, _, confined = UNIT.read_text().partition("DynamicUser=")
    folder = re.sub("^StateDirectory.*\n", "", confined, flags=re.MULTILINE)
    assert INSTANCES.read_text().partition("DynamicUser=")[2] == folder


@pytest.mark.parametrize("file", ["compose.yaml", "docker/servers.compose.yaml"])
def test_whoever_stops_it_waits_longer_than_it_takes(file):
    found = re.findall(r"stop_grace_period: (\d+)s", (ROOT / file).read_text())
    units = [int(values("TimeoutStopSec", unit)[0]) for unit in (UNIT, INSTANCES)]

    assert min([*units, *map(int, found)]) > LONGEST_END
    assert found


@UNITS
def test_systemd_reads_the_unit_and_finds_it_confined(tmp_path, unit):
    program = tmp_path / "pushgrid"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    copy = tmp_path / unit.name.replace("@", "@7071")
    copy.write_text(unit.read_text().replace("/opt/pushgrid/bin/pushgrid", str(program)))

    assert run("systemd-analyze", "verify", copy) == ""
    run("systemd-analyze", "security", "--offline=yes", "--threshold=20", copy)


@pytest.mark.parametrize("servers", [1, 2])
def test_nginx_reads_its_file(tmp_path, servers):
    text = NGINX.read_text()
    if servers == 2:
        text = text.replace("# server 127", "server 127")
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


@pytest.mark.parametrize("file", [CADDY, SERVERS], ids=["one", "servers"])
def test_caddy_reads_its_file(file):
    assert "Valid configuration" in run(
        "caddy", "validate", "--config", file, "--adapter", "caddyfile"
    )
    run("caddy", "fmt", "--diff", file)


def test_proxies_let_go_of_connections_before_the_server_does():
    (nginx,) = re.findall(r"keepalive_timeout (\d+)s", NGINX.read_text())
    caddy = re.findall(r"keepalive (\d+)s", CADDY.read_text() + SERVERS.read_text())

    assert max(map(int, [nginx, *caddy])) < ConnectionLimits(1).keep_alive_seconds
