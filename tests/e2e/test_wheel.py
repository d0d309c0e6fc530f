"""The wheel: its content, and the command that it installs, without a checkout."""

from __future__ import annotations

import email
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib.metadata import packages_distributions
from pathlib import Path
from urllib.request import urlopen

import pytest
from packaging.requirements import Requirement
from packaging.utils import NormalizedName, canonicalize_name

from shared import VERSION
from tests.commands import Command
from tests.dockerfiles import context, copy_context
from tests.first_event import commands, play
from tests.installed import Installed, install, run_suites, with_their_own
from tests.package_list import ROOT, imported_modules, plant, requirements, tracked

LOCAL_DOCKERFILE = ROOT / "docker/dev.Dockerfile"

HOME = "pushgrid/home/"
METADATA = f"pushgrid-{VERSION}.dist-info/"
BESIDE = ("cli", "devhost", "server", "testbed", *(path.name for path in ROOT.glob("*_function")))
_PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = {
    extra: [*map(Requirement, listed)]
    for extra, listed in _PROJECT["optional-dependencies"].items()
}
DEPENDENCIES = {canonicalize_name(each.name): each for listed in EXTRAS.values() for each in listed}


def build(kind: str, root: Path, target: Path) -> Path:
    """Build the sdist or the wheel of a source tree; return its path."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", kind, "--directory"]
    subprocess.run([*command, str(target)], cwd=root, check=True, capture_output=True)
    (built,) = target.iterdir()
    return built


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("wheel", ROOT, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def files(wheel: Path) -> dict[str, str]:
    """The wheel's files."""
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name).decode() for name in archive.namelist()}


def test_it_holds_what_the_command_needs_in_one_package(files: dict[str, str]) -> None:
    files_beside = ("host.json", "package.json", "package-lock.json")
    sources = tracked("pushgrid", "shared", *BESIDE, *files_beside)
    paths = {_place(path) for path in sources if not path.endswith(".md")}

    assert {"publish_function", "deliver_function", "retry_function"} <= set(BESIDE)
    assert {name for name in files if not name.startswith(METADATA)} == paths


def _place(path: str) -> str:
    if path.startswith("pushgrid/"):
        return path
    return f"pushgrid/{path}" if path.startswith("shared/") else f"{HOME}{path}"


def test_every_import_leads_into_the_wheel_or_to_a_dependency(files: dict[str, str]) -> None:
    modules = {name.removesuffix(".py").removesuffix("/__init__") for name in files}
    code = {name: text for name, text in files.items() if name.endswith(".py")}
    imports = {(name, each) for name, text in code.items() for each in imported_modules(text)}
    ours = {(name, each) for name, each in imports if each.startswith("pushgrid.")}
    beside = {(name, each) for name, each in imports if each.partition(".")[0] in BESIDE}
    others = {each.partition(".")[0] for _, each in imports - ours - beside}

    assert [pair for pair in ours if pair[1].replace(".", "/") not in modules] == []
    assert [pair for pair in beside if HOME + pair[1].replace(".", "/") not in modules] == []
    # Only the command puts the folder `home` on the path.
    from_outside = {name for name, _ in beside if not name.startswith(HOME)}
    assert from_outside == {"pushgrid/command.py"}
    names = {owner for top in others - sys.stdlib_module_names for owner in _owners(top)}
    assert names - set(DEPENDENCIES) == set()


def _owners(package: str) -> set[NormalizedName]:
    """Return the distributions that install a top-level package, which must be one of ours."""
    owners = {canonicalize_name(each) for each in packages_distributions()[package]}
    return owners & set(DEPENDENCIES) or owners


def test_it_says_what_it_is(files: dict[str, str]) -> None:
    said = email.message_from_string(files[f"{METADATA}METADATA"])

    assert (said["Name"], said["Version"]) == ("pushgrid", VERSION)
    assert said["License-Expression"] == "MIT"
    assert "Not affiliated with Microsoft" in said["Summary"]
    assert said["Requires-Python"] == "<3.15,>=3.11"
    assert said["Description-Content-Type"] == "text/markdown"
    assert said.get_payload() == (ROOT / "README.md").read_text()
    assert f"{METADATA}licenses/LICENSE" in files
    pythons = [each for each in said.get_all("Classifier", []) if ":: Python ::" in each]
    assert [each.rpartition(" ")[2] for each in pythons] == ["3.11", "3.12", "3.13", "3.14"]


@pytest.mark.parametrize("repository", ["", "owner/name"])
def test_its_urls_are_those_of_the_repository_that_builds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, repository: str
) -> None:
    monkeypatch.setenv("GITHUB_SERVER_URL", "https://git.example")
    monkeypatch.setenv("GITHUB_REPOSITORY", repository)
    with zipfile.ZipFile(build("wheel", ROOT, tmp_path)) as archive:
        said = email.message_from_bytes(archive.read(f"{METADATA}METADATA"))

    urls = dict(each.split(", ") for each in said.get_all("Project-URL", []))
    base = f"https://git.example/{repository}"
    assert urls.get("Homepage") == (base if repository else None)
    assert len(urls) == (5 if repository else 0)
    for url in urls.values():
        path = url.removeprefix(base).removeprefix("/tree/HEAD/").removeprefix("/blob/HEAD/")
        assert path in {"", "/issues", "/security/policy"} or (ROOT / path).exists()


def test_each_dependency_allows_the_version_that_is_pinned_and_tested() -> None:
    files = ("requirements.txt", "requirements-run.txt", "requirements-dev.txt")
    pins = [pin for file in files for pin in requirements(file)]
    versions: dict[str, list[str]] = {}
    for pin, _ in pins:
        version = str(pin.specifier).removeprefix("==")
        versions.setdefault(canonicalize_name(pin.name), []).append(version)

    for name, declared in DEPENDENCIES.items():
        assert versions[name], name
        assert all(version in declared.specifier for version in versions[name]), name


def test_the_apps_own_requirements_are_dependencies() -> None:
    direct, _ = (ROOT / "requirements.txt").read_text().split("# What those bring")
    names = {line.partition("==")[0] for line in direct.splitlines() if "==" in line}

    assert {canonicalize_name(name) for name in names} <= set(DEPENDENCIES)


def test_a_source_distribution_builds_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    with tarfile.open(build("sdist", ROOT, tmp_path / "sdist")) as archive:
        archive.extractall(tmp_path, filter="data")

    again = build("wheel", tmp_path / f"pushgrid-{VERSION}", tmp_path / "wheel")

    assert again.name == wheel.name
    assert again.read_bytes() == wheel.read_bytes()


def test_planted_files_get_into_neither_distribution(wheel: Path, tmp_path: Path) -> None:
    """Built without git, whose ignore file would leave some of them out."""
    source = copy_context(LOCAL_DOCKERFILE, tmp_path / "source")
    plant(source)

    assert build("wheel", source, tmp_path / "wheel").read_bytes() == wheel.read_bytes()
    with tarfile.open(build("sdist", source, tmp_path / "sdist")) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    built = {path.as_posix() for path in context(LOCAL_DOCKERFILE)}
    assert names == built | {"PKG-INFO"}


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return install(wheel, tmp_path_factory.mktemp("installed"))


def test_the_checkout_is_not_there(installed: Installed) -> None:
    code = "import pushgrid.shared, sys; print(*sys.path, sep='\\n')"
    paths = installed.run("python", "-c", code).stdout.splitlines()

    assert paths
    assert str(ROOT) not in paths
    for package in ("shared", "cli", "devhost", "server", "testbed"):
        assert "ModuleNotFoundError" in installed.run("python", "-c", f"import {package}").stderr


def test_the_command_says_its_version(installed: Installed) -> None:
    assert installed.run("pushgrid", "--version").stdout == f"pushgrid, version {VERSION}\n"


def test_the_fixture_needs_only_its_own_packages(wheel: Path, tmp_path: Path) -> None:
    """All examples of the guide but that of Azure's client, beside a project's own `shared`."""
    alone = install(wheel, tmp_path, with_their_own(EXTRAS["testing"]))
    text, azures = (ROOT / "docs/testing.md").read_text().split("## Azure's clients")
    examples = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    (alone.folder / "shared").mkdir()
    (alone.folder / "shared/__init__.py").write_text("NAME = 'ours'\n")
    file = alone.folder / "test_examples.py"
    file.write_text("\n".join(["from shared import NAME", *examples]))

    ended = alone.run("python", "-m", "pytest", "-q", "-p", "no:cacheprovider", str(file))
    command = alone.run("pushgrid", "dev")

    count = file.read_text().count("def test_")
    assert ended.stdout.rstrip().rpartition("\n")[2].startswith(f"{count} passed"), ended.stdout
    assert (ended.stderr, count > 8, "def test_" in azures) == ("", True, True)
    for package in ("azure.core", "click", "uvicorn"):
        assert "ModuleNotFoundError" in alone.run("python", "-c", f"import {package}").stderr
    said = "pushgrid: there is no 'click': pip install 'pushgrid[local]'\n"
    assert (command.returncode, command.stderr) == (1, said)


def test_the_server_needs_only_its_own_packages(wheel: Path, tmp_path: Path) -> None:
    """No package of Azure, and no Node."""
    alone = install(wheel, tmp_path, with_their_own(EXTRAS["serve"]))
    command = [str(alone.programs / "pushgrid"), "serve", "--data", "data", "--port", "0"]
    with Command([*command, "--unsafe-folder"], alone.folder, alone.environ) as server:
        url = server.see("ready http").split()[1]
        with urlopen(f"{url}/console") as page:
            assert page.status == 200
        created = alone.run("pushgrid", "topic", "create", "orders", "--url", url)
        assert created.stdout.startswith("created topic orders"), created.stderr
    assert server.process.returncode == 0
    assert "needs pushgrid[local]" in alone.run("pushgrid", "--help").stdout
    for package in ("azure", "filelock", "trustme"):
        assert "ModuleNotFoundError" in alone.run("python", "-c", f"import {package}").stderr


def test_its_types_are_known_to_a_users_tests(installed: Installed) -> None:
    text = (ROOT / "docs/testing.md").read_text().split("## Types")[1]
    (example,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    file = installed.folder / "test_types.py"
    file.write_text(f"{example}\n\ndef wrong(pushgrid: Pushgrid) -> None:\n    pushgrid.queues\n")
    silent = ("--strict", "--follow-imports=silent", "--cache-dir", os.devnull)

    said = installed.run("python", "-m", "mypy", *silent, str(file)).stdout.splitlines()

    assert ['"Pushgrid" has no attribute "queues"' in line for line in said] == [True, False], said


def test_our_own_tests_pass_on_the_installed_fixture(installed: Installed) -> None:
    """`make wheel` runs all functional tests and contracts so."""
    ended = run_suites(installed, "tests/functional/fixture/test_fixture.py", "tests/unit/testing")

    assert ended.returncode == 0, ended.stdout
    assert re.search(r"^\d\d+ passed", ended.stdout, re.MULTILINE), ended.stdout


def test_the_first_event_takes_four_commands(installed: Installed) -> None:
    """`make setup`, or its installation, and three more; both pages name the same."""
    readme = commands("README.md", "Your own topic")
    assert [each[0] for each in readme] == ["dev", "listen", "publish"]
    assert [each[:3] for each in commands("docs/install.md", "The wheel")] == [
        each[:3] for each in readme
    ]
    # Another address of this machine shows that --host is followed; only Linux has it.
    address = "127.0.0.2" if sys.platform == "linux" else "127.0.0.1"
    program = installed.programs / "pushgrid"

    lines = play(program, installed.folder, installed.environ, "--host", address)

    assert any(line.startswith(f"ready http://{address}:") for line in lines)
    assert not [line for line in lines if str(ROOT) in line or "Traceback" in line]
