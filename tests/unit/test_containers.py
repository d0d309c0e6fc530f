"""The Dockerfiles and compose.yaml: linted, and in agreement with the project."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli.local.dev import dev
from cli.serve import serve_command
from devhost.azurite_files import node_and_azurite
from shared import settings
from tests.dockerfiles import context, stages
from tests.package_list import ROOT, package_list, plant, tracked
from tests.server.memory_home import MemoryHome

DEV, SERVE, PRODUCTION = (
    ROOT / f"docker/{name}.Dockerfile" for name in ("dev", "serve", "production")
)
FILES = [ROOT / "compose.yaml", ROOT / "docker/servers.compose.yaml"]
COMPOSE: Any
SERVERS: Any
COMPOSE, SERVERS = (yaml.safe_load(file.read_text())["services"] for file in FILES)
#: Settings of the Functions host and its worker.
_OF_THE_HOST = {"AzureFunctionsWebHost__hostid", "PYTHON_THREADPOOL_THREAD_COUNT"}


def test_hadolint_has_no_objections() -> None:
    hadolint = Path(sys.executable).with_name("hadolint")
    said = subprocess.run(
        [hadolint, DEV, SERVE, PRODUCTION], capture_output=True, text=True, check=False
    )

    assert (said.returncode, said.stdout, said.stderr) == (0, "", "")


@pytest.mark.slow
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_dclint_has_no_objections(file: Path) -> None:
    node, _ = node_and_azurite()
    dclint = str(ROOT / "node_modules/dclint/bin/dclint.cjs")
    command = [node, dclint, "--max-warnings", "0", str(file)]
    said = subprocess.run(command, capture_output=True, text=True, check=False)

    assert (said.returncode, said.stderr) == (0, ""), said.stdout


def test_the_production_image_is_built_from_what_a_deployment_uploads() -> None:
    assert context(PRODUCTION) == set(package_list())


def test_the_local_image_is_built_from_what_the_wheel_is_built_from() -> None:
    functions = (path.name for path in ROOT.glob("*_function"))
    folders = ("cli", "devhost", "pushgrid", "server", "shared", "testbed", *functions)
    others = ("LICENSE", "README.md", "host.json", "package.json", "package-lock.json")
    build = ("pyproject.toml", "tools/project_urls.py", "tools/wheel_layout.py")

    sources = tracked(*folders, *others, *build) - {"devhost/README.md"}
    assert context(DEV) == context(SERVE) == {Path(path) for path in sources}


@pytest.mark.parametrize("dockerfile", [DEV, SERVE, PRODUCTION], ids=lambda path: path.stem)
def test_secrets_and_leftovers_are_not_sent_to_a_build(dockerfile: Path, tmp_path: Path) -> None:
    plant(tmp_path)
    for path in (".git/config", "node_modules/a.js", "tests/unit/test_a.py", "host.json"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    ignore = Path(f"{dockerfile}.dockerignore")
    (tmp_path / ignore.name).write_text(ignore.read_text())

    assert context(tmp_path / dockerfile.name, tmp_path) == {Path("host.json")}


def test_the_production_image_has_the_app_where_its_host_looks() -> None:
    (stage,) = stages(PRODUCTION)
    folder = re.search(r"AzureWebJobsScriptRoot=(\S+)", stage.values("ENV")[0])

    assert folder
    assert stage.values("COPY") == [f"requirements.txt {folder[1]}/", f". {folder[1]}/"]
    assert stage.base == "mcr.microsoft.com/azure-functions/python:4-python3.13"


@pytest.mark.parametrize(
    ("dockerfile", "path"),
    [(DEV, "status/health"), (SERVE, "readyz"), (PRODUCTION, "status/health")],
    ids=["dev", "serve", "production"],
)
def test_compose_publishes_the_port_that_is_served_and_checked(dockerfile: Path, path: str) -> None:
    service = dockerfile.name.removesuffix(".Dockerfile")
    stage = stages(dockerfile)[-1]
    (port,) = stage.values("EXPOSE")

    # On this machine only; `dev` and `serve` may run side by side.
    published = "7072" if service == "serve" else port
    assert COMPOSE[service]["ports"] == [f"127.0.0.1:{published}:{port}"]
    check = stage.arguments("HEALTHCHECK")[-1]
    assert f"'http://127.0.0.1:{port}/{path}'" in check
    assert COMPOSE[service]["build"]["dockerfile"] == f"docker/{dockerfile.name}"
    assert stage.values("USER")[0].isdecimal()


def test_the_local_image_runs_a_command_with_options_that_it_has() -> None:
    stage = stages(DEV)[-1]
    name, *options = stage.arguments("CMD")

    assert (stage.arguments("ENTRYPOINT"), name) == (["pushgrid"], "dev")
    assert str(dev.make_context(name, options).params["host"]) == "0.0.0.0"  # noqa: S104 - parsed only


def test_the_servers_image_runs_a_command_with_options_that_it_has() -> None:
    stage = stages(SERVE)[-1]
    _, name, *options = [*stage.arguments("ENTRYPOINT"), *stage.arguments("CMD")]
    serve = serve_command(MemoryHome, "3.51.3")
    given = serve.make_context(name, options).params

    assert (name, str(given["host"]), given["port"]) == ("serve", "0.0.0.0", 7071)  # noqa: S104 - parsed only
    (volume,) = stage.values("VOLUME")
    assert given["data"].parent == Path(volume)
    assert COMPOSE["serve"]["volumes"] == [f"pushgrid:{volume}"]


def test_the_servers_on_postgresql_run_a_command_with_options_that_it_has() -> None:
    """Without a password among them, behind the proxy, which names both."""
    proxy = (ROOT / "docker/servers.Caddyfile").read_text()
    for name in ("server-1", "server-2"):
        service = SERVERS[name]
        _, command, *options = service["entrypoint"] + service["command"]
        given = serve_command(MemoryHome, "3.51.3").make_context(command, options).params
        assert (given["data"], given["store"]) == (None, "postgresql://pushgrid@postgres/events")
        assert given["proxies"]
        assert f" {name}:{given['port']} " in proxy
        assert set(service["environment"]) <= {*settings.NAMES.values(), "PGPASSWORD"}
        assert service["depends_on"]["postgres"]["condition"] == "service_healthy"
    (port,) = SERVERS["proxy"]["ports"]
    assert f"\n:{port.rpartition(':')[2]} {{" in proxy
    assert "[serve,postgres]" in SERVE.read_text()
    role = SERVERS["postgres"]["volumes"][1].partition(":")[0]
    assert (ROOT / "docker" / role).stat().st_mode & 0o111


def test_compose_gives_settings_that_exist_and_those_that_timers_need() -> None:
    given = {name: each.get("environment", {}) for name, each in COMPOSE.items()}
    example = json.loads((ROOT / "local.settings.example.json").read_text())["Values"]

    for environ in given.values():
        assert set(environ) <= set(settings.NAMES.values()) | _OF_THE_HOST
    assert {name for name in example if name.endswith("_SCHEDULE")} <= set(given["production"])


def test_a_host_that_ends_is_started_again_and_receives_nothing_while_it_stops() -> None:
    """Out of reach of storage it ends with exit code 0."""
    assert COMPOSE["production"]["restart"] == "unless-stopped"
    (stage,) = stages(PRODUCTION)
    assert "FUNCTIONS_ENABLE_DRAIN_ON_APP_STOPPING=true" in stage.values("ENV")[0]


def test_the_production_service_uses_composes_azurite() -> None:
    storage = COMPOSE["production"]["environment"]["AzureWebJobsStorage"]
    members = dict(each.split("=", 1) for each in storage.strip(";").split(";"))
    endpoints = {name: url for name, url in members.items() if name.endswith("Endpoint")}

    assert endpoints == {
        f"{kind}Endpoint": f"http://azurite:{port}/{members['AccountName']}"
        for kind, port in (("Blob", 10000), ("Queue", 10001), ("Table", 10002))
    }
    lock: Any = json.loads((ROOT / "package-lock.json").read_text())
    version = lock["packages"]["node_modules/azurite"]["version"]
    assert COMPOSE["azurite"]["image"].endswith(f"/azurite:{version}")
    assert COMPOSE["production"]["depends_on"]["azurite"]["condition"] == "service_healthy"
    assert "healthcheck" in COMPOSE["azurite"]
