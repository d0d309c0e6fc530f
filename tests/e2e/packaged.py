"""
The app as Azure has it: the uploaded files, their requirements beside them, and nothing to write.

The host and what it alone needs stand in a folder of their own, as on Azure; Python is the bare
interpreter, without the site-packages of this checkout.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.package_list import ROOT, package_list

SITE_PACKAGES = Path(".python_packages/lib/site-packages")
_TOOLS = ("devhost", "uvicorn", "click")
_PIP = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
_NOBODY = "65534"

# What a worker does: the app's packages first, the host's own last. Then it says what was loaded.
_START = """
import json, os, sys
host, site_packages = sys.argv[1:3]
del sys.argv[1:3]
sys.path[:0] = [site_packages, host + "/tools", host]
from devhost.cli import main
code = main()
files = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
said = {"standard": os.path.dirname(os.__file__), "files": sorted(files - {None})}
print("loaded " + json.dumps(said), flush=True)
sys.exit(code)
"""
# Fails unless the package can be read, and nothing of it be written.
_PROBE = """
import pathlib, sys
package = pathlib.Path(sys.argv[1])
assert (package / "host.json").read_bytes()
for folder in (package, package / "shared"):
    try:
        (folder / "probe").write_bytes(b"")
    except OSError:
        continue
    sys.exit("it can be written")
"""
_MOUNT = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"'


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """
    An app that is installed in *root*.

    *program* runs the local host, for which *root* is read-only; it ends with a line ``loaded``
    and the paths of all modules and of Python's own. *how* says what makes it read-only.
    """

    root: Path
    host: Path
    program: Sequence[str]
    how: str

    def files(self) -> set[Path]:
        return {path for path in self.root.rglob("*") if path.is_file()}


def install(folder: Path) -> Package:
    """
    Make the package in *folder*.

    Raises:
        RuntimeError: this machine has no way to take the right to write from a process.
    """
    root, host = folder / "app", folder / "host"
    for path in package_list():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / path, root / path)
    where = ["--target", str(root / SITE_PACKAGES), "-r", str(root / "requirements.txt")]
    subprocess.run([*_PIP, *where], check=True, timeout=240)
    _copy_tools(host)
    python = [_bare_python(), "-I", "-S", "-u"]
    how, before = _read_only(root, python)
    return Package(
        root=root,
        host=host,
        how=how,
        program=[*before, *python, str(host / "start.py"), str(host), str(root / SITE_PACKAGES)],
    )


def _copy_tools(host: Path) -> None:
    for name in _TOOLS:
        spec = importlib.util.find_spec(name)
        assert spec
        assert spec.origin
        below = host if name == "devhost" else host / "tools"
        unwanted = shutil.ignore_patterns("__pycache__")
        shutil.copytree(Path(spec.origin).parent, below / name, ignore=unwanted)
    (host / "start.py").write_text(_START)


def _bare_python() -> str:
    """Return the interpreter that our virtual environment was made with."""
    return str(Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info.minor}")


def _read_only(root: Path, python: Sequence[str]) -> tuple[str, list[str]]:
    """Find what to put before a program so that *root* is read-only for it; return its name too."""
    mounted = ["sh", "-c", _MOUNT, str(root)]
    ways = {
        "a mount": ["unshare", "--mount", *mounted],
        "a mount in a user namespace": [
            "unshare",
            "--user",
            "--map-root-user",
            "--mount",
            *mounted,
        ],
    }
    tried: list[str] = []
    for how, before in ways.items():
        if _works(before, root, python, tried):
            return how, before
    # Without mounts: permissions, which do not hold root up.
    for path in [root, *root.rglob("*")]:
        path.chmod(path.stat().st_mode & ~0o222 | 0o444)
    before = []
    if os.geteuid() == 0:
        before = ["setpriv", "--reuid", _NOBODY, "--regid", _NOBODY, "--clear-groups"]
    if _works(before, root, python, tried):
        return "permissions", before
    raise RuntimeError("nothing makes a folder read-only here:\n" + "\n".join(tried))


def _works(before: list[str], root: Path, python: Sequence[str], tried: list[str]) -> bool:
    try:
        probe = subprocess.run(
            [*before, *python, "-c", _PROBE, str(root)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    except OSError as fault:
        tried.append(f"{before[:1]}: {fault}")
        return False
    tried.append(f"{before[:4]}: {probe.returncode} {probe.stderr.strip()}")
    return probe.returncode == 0
