"""
The app as Azure has it: the uploaded files, their requirements beside them, and nothing to write.

The host and what it alone needs stand in a folder of their own, as on Azure; Python is the bare
interpreter, without the site-packages of this checkout.
"""

from __future__ import annotations

import importlib.util
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """
    An app that is installed in *root*.

    *program* runs the local host; it ends with a line ``loaded`` and the paths of all modules and
    of Python's own.
    """

    root: Path
    host: Path
    program: Sequence[str]

    def files(self) -> dict[Path, int]:
        """Return the files, with the times of their last change."""
        return {path: path.stat().st_mtime_ns for path in self.root.rglob("*") if path.is_file()}


def install(folder: Path) -> Package:
    """Make the package in *folder*; nobody but the superuser may write it."""
    root, host = folder / "app", folder / "host"
    for path in package_list():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / path, root / path)
    where = ["--target", str(root / SITE_PACKAGES), "-r", str(root / "requirements.txt")]
    subprocess.run([*_PIP, *where], check=True, timeout=240)
    _copy_tools(host)
    for path in [root, *root.rglob("*")]:
        path.chmod(path.stat().st_mode & ~0o222)
    python = [_bare_python(), "-B", "-I", "-S", "-u"]
    return Package(
        root=root,
        host=host,
        program=[*python, str(host / "start.py"), str(host), str(root / SITE_PACKAGES)],
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
