"""The project keeps its own rules: layout, names, settings, what is deployed."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import yaml

from shared import settings
from tests.package_list import requirements, tracked

ROOT = Path(__file__).parents[2]
PYTHONS = ["3.11", "3.12", "3.13", "3.14"]
_PIN = re.compile(r"^[\w.-]+==", re.MULTILINE)
#: Files that pip installs from, and folders that npm installs in.
PINNED = sorted(file for file in tracked("*.txt") if _PIN.search((ROOT / file).read_text()))
LOCKED = sorted(str(Path(file).parent) for file in tracked("*package-lock.json"))
FOLDERS = sorted(path.parent for path in ROOT.glob("*_function/function.json"))


def test_readme_names_every_setting_and_no_other():
    readme = (ROOT / "README.md").read_text()
    table = readme.split("## Settings")[1].split("##")[0]
    named = set(re.findall(r"^\| `([A-Za-z0-9_]+)`", table, re.MULTILINE))

    assert named == set(settings.NAMES.values())


def test_every_setting_is_a_field_and_every_field_a_setting():
    fields = {field.name for field in dataclasses.fields(settings.Settings)}

    assert fields == set(settings.NAMES)


def test_local_settings_name_only_what_the_app_or_its_host_reads():
    values = json.loads((ROOT / "local.settings.example.json").read_text())["Values"]
    of_the_host = {
        "FUNCTIONS_REQUEST_BODY_SIZE_LIMIT",
        "FUNCTIONS_WORKER_RUNTIME",
        "PYTHON_THREADPOOL_THREAD_COUNT",
    }
    of_host_json = {name for name in values if name.startswith("AzureFunctionsJobHost__")}

    assert set(values) - of_the_host - of_host_json <= set(settings.NAMES.values())


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_function_folder_only_translates(folder: Path):
    code = (folder / "__init__.py").read_text()

    assert len(code.splitlines()) <= 60
    assert not re.search(r"^from \.", code, re.MULTILINE)
    assert {path.name for path in folder.iterdir()} - {"__pycache__"} == {
        "__init__.py",
        "function.json",
    }


def test_nothing_installed_brings_a_top_level_shared():
    """The app's root stands last in ``sys.path``: an installed ``shared`` would win."""
    owners = importlib.metadata.packages_distributions().get("shared", [])

    assert [owner for owner in owners if owner != "pushgrid"] == []


@pytest.mark.parametrize("folder", LOCKED)
def test_lock_files_hold_no_download_addresses(folder: str):
    assert '"resolved"' not in (ROOT / folder / "package-lock.json").read_text()


def _pins(python: str) -> list[tuple[str, str]]:
    """Return name and version of each pin in requirements.txt that holds for *python*."""
    wanted = [requirement for requirement, _ in requirements("requirements.txt")]
    environment = {"python_version": python}
    holding = [each for each in wanted if not each.marker or each.marker.evaluate(environment)]
    return [(each.name, str(each.specifier).removeprefix("==")) for each in holding]


@pytest.mark.parametrize("python", PYTHONS)
def test_runtime_requirements_are_pinned_exactly(python: str):
    pins = _pins(python)

    assert all(re.fullmatch(r"[0-9.]+", version) for _, version in pins)
    assert len(dict(pins)) == len(pins) > 10
    assert dict(pins)["azure-functions"].startswith("1." if python < "3.13" else "2.")


@pytest.mark.parametrize("file", PINNED)
def test_nothing_is_installed_without_one_of_its_hashes(file: str):
    text = (ROOT / file).read_text()
    pins = requirements(file)

    assert re.search(r"^(-r requirements(-run)?\.txt|--require-hashes)$", text, re.MULTILINE)
    assert len(pins) == len(_PIN.findall(text))
    for requirement, hashes in pins:
        assert hashes, requirement
        assert all(re.fullmatch("sha256:[0-9a-f]{64}", each) for each in hashes), requirement
    assert "://" not in text


def test_updates_are_proposed_for_every_pin():
    entries = yaml.safe_load((ROOT / ".github/dependabot.yml").read_text())["updates"]
    proposed = {
        (each["package-ecosystem"], folder)
        for each in entries
        for folder in each.get("directories", [each.get("directory")])
    }
    pinned = {("pip", f"/{Path(file).parent}".removesuffix("/.")) for file in PINNED}
    pinned |= {("npm", f"/{folder}".removesuffix("/.")) for folder in LOCKED}

    assert {(kind, folder.rstrip("/")) for kind, folder in proposed} == pinned | {
        ("github-actions", ""),
        ("docker", "/docker"),
        ("docker-compose", ""),
        ("gomod", "/tests/clients/go"),
        ("maven", "/tests/clients/java"),
    }


def test_every_pin_is_audited():
    """What `make audit` would do: it needs services that tests don't have."""
    command = ["make", "--no-print-directory", "--dry-run", "audit"]
    run = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    made = run.stdout
    files, folders = re.findall(r"for \w+ in ([^;]+);", made)

    assert "pip-audit" in made
    assert "npm audit" in made
    assert set(files.split()) == set(PINNED)
    assert set(folders.split()) == set(LOCKED)


def test_what_is_installed_is_what_is_pinned():
    for name, version in _pins(f"3.{sys.version_info.minor}"):
        assert importlib.metadata.version(name) == version


def test_every_page_and_tool_names_the_same_pythons():
    ci = (ROOT / ".github/workflows/ci.yml").read_text()
    project = (ROOT / "pyproject.toml").read_text()

    assert f"        python: {json.dumps(PYTHONS)}\n" in ci
    assert 'requires-python = ">=3.11,<3.15"' in project
    assert "Python 3.11, 3.12, 3.13 or 3.14" in (ROOT / "README.md").read_text()


def test_one_name_names_one_class():
    """But for `Topic`, which `pushgrid.testing` offers under the name that users know."""
    named = Counter(
        name
        for folder in ("shared", "devhost", "server", "cli", "pushgrid", "bench", "tools")
        for path in (ROOT / folder).rglob("*.py")
        for name in re.findall(r"^class ([A-Z]\w*)", path.read_text(), re.MULTILINE)
    )

    assert {name for name, classes in named.items() if classes > 1} == {"Topic"}


def test_the_host_samples_its_telemetry_but_keeps_every_exception():
    """Alerts count with ItemCount what was left out; an exception that is left out is lost."""
    host = json.loads((ROOT / "host.json").read_text())

    assert host["logging"]["applicationInsights"]["samplingSettings"] == {
        "isEnabled": True,
        "excludedTypes": "Exception",
    }


def test_the_host_says_nothing_of_runs_that_succeed_but_passes_on_every_line_of_ours():
    """Its two lines a run would cost more than the run; requests are kept beside them."""
    levels = json.loads((ROOT / "host.json").read_text())["logging"]["logLevel"]

    assert levels["default"] == "Information"
    assert levels["Function"] == "Warning"
    passed_on = {name for name in levels if name.startswith("Function.")}
    assert passed_on == {f"Function.{folder.name}.User" for folder in FOLDERS}
    assert {levels[name] for name in passed_on} == {"Information"}
