"""
Installs the wheel in environments of its own, and runs our suites against it.

In the wheel `shared` is `pushgrid.shared`, and what a checkout has beside it is `pushgrid/home`.
As a program, ``python -m tests.installed WHEEL``, it runs the contract and functional suites.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import distribution, requires
from pathlib import Path

import certifi
from packaging.requirements import Requirement

from tests.package_list import ROOT
from tools.wheel_layout import LIBRARY

# Where a test names a module or replaces something in one.
_NAMED = re.compile(r'(?<=["\'])shared(?=\.\w)')
#: What the suites read, besides themselves.
_READ = ("README.md", "docs", "infra", "pyproject.toml")


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """The wheel in an environment of its own, whose *programs* are run in an empty *folder*."""

    programs: Path
    folder: Path
    environ: dict[str, str]

    @property
    def package(self) -> Path:
        """Where the wheel's one package is."""
        (found,) = self.programs.parent.glob("lib/*/site-packages/pushgrid")
        return found

    def run(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self.programs / program), *arguments],
            cwd=self.folder,
            env=self.environ,
            capture_output=True,
            text=True,
            check=False,
        )


def install(wheel: Path, folder: Path, packages: Iterable[str] | None = None) -> Installed:
    """
    Install the wheel in *folder*, beside these packages of this environment, or beside all.

    Nothing is downloaded: Azurite is in the user's cache. The checkout can't be imported.
    """
    environment, empty = folder / "venv", folder / "empty"
    venv.create(environment, symlinks=True)
    (site_packages,) = environment.glob("lib/*/site-packages")
    if packages is None:
        # As a plain entry of the path: the .pth file of the editable installation is not read.
        (site_packages / "others.pth").write_text(str(Path(certifi.__file__).parents[1]))
    for name in packages or ():
        for file in distribution(name).files or ():
            link = site_packages / file.parts[0]
            if file.parts[0] != ".." and not link.exists():
                link.symlink_to(Path(str(distribution(name).locate_file(file.parts[0]))))
    pip = [sys.executable, "-m", "pip", "--python", str(environment), "install", "--quiet"]
    subprocess.run([*pip, "--no-deps", "--no-index", str(wheel)], check=True)
    empty.mkdir()
    azurite = folder / f"cache/pushgrid/azurite-{_azurite_version()}"
    azurite.mkdir(parents=True)
    (azurite / "node_modules").symlink_to(ROOT / "node_modules")
    # Where the machine has no Node, set-up has put one beside this environment's Python.
    path = [os.environ["PATH"], str(Path(sys.executable).parent)]
    return Installed(
        programs=environment / "bin",
        folder=empty,
        environ={
            "HOME": str(empty),
            "PATH": os.pathsep.join(path),
            "XDG_CACHE_HOME": str(folder / "cache"),
        },
    )


def _azurite_version() -> str:
    lock = json.loads((ROOT / "package-lock.json").read_text())
    return str(lock["packages"]["node_modules/azurite"]["version"])


def with_their_own(required: Iterable[Requirement]) -> Iterator[str]:
    """Return the names of requirements, and of what these require here."""
    for each in required:
        if not each.marker or each.marker.evaluate({"extra": ""}):
            yield each.name
            yield from with_their_own(map(Requirement, requires(each.name) or ()))


def run_suites(installed: Installed, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run pytest with *arguments*, such as ``tests/functional``, on the installed wheel."""
    root, package = installed.folder.with_name("suites"), installed.package
    shutil.copytree(
        ROOT / "tests", root / "tests", ignore=shutil.ignore_patterns("__pycache__", "node_modules")
    )
    for file in (root / "tests").rglob("*.py"):
        text = LIBRARY.sub(r"\1pushgrid.shared", file.read_text())
        file.write_text(_NAMED.sub("pushgrid.shared", text))
    for name in _READ:
        (root / name).symlink_to(ROOT / name)
    for each in (package / "home").glob("*_function"):
        (root / each.name).symlink_to(each)
    (root / "shared").mkdir()  # not to be imported from
    (root / "shared/console").symlink_to(package / "shared/console")
    environ = installed.environ | {"PYTHONPATH": str(package / "home")}
    pytest = [str(installed.programs / "python"), "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    return subprocess.run(
        [*pytest, *arguments],
        cwd=root,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


def main(arguments: list[str]) -> int:
    """Run both suites; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.installed", description=__doc__)
    parser.add_argument("wheel", type=Path)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        installed = install(options.wheel.absolute(), Path(folder))
        ended = run_suites(installed, "tests/functional", "tests/contract")
        text = ended.stdout if ended.returncode else ended.stdout.rstrip().rpartition("\n")[2]
        sys.stdout.write(f"{text}\n")
    return ended.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
