"""What a deployment uploads: what `.funcignore` names. As a program: list, size, and zip."""

from __future__ import annotations

import argparse
import ast
import importlib.metadata
import subprocess
import sys
import tempfile
import zipfile
from functools import cache
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]


def _left_beside(path: str) -> list[str]:
    """Return what editors and systems leave beside a file, and a hidden copy of its folder."""
    folder, _, name = path.rpartition("/")
    hidden = [f".{name}", f".#{name}", f"._{name}", f".{name}.swp", f".ipynb_checkpoints/{name}"]
    backups = [f"#{name}#", *(f"{name}{each}" for each in ("~", ".bak", ".orig", ".swp"))]
    stem, _, kind = name.rpartition(".")
    backups += [f"{stem}{each}.{kind}" for each in (".bak", " copy", " - Copy", " (1)")]
    return [f".{path}", *(f"{folder}/{each}" for each in (*hidden, *backups))]


#: What stands beside the app's own files.
LEFT_BESIDE = (
    *_left_beside("publish_function/__init__.py"),
    *_left_beside("publish_function/function.json"),
    *_left_beside("shared/clock.py"),
    *_left_beside("shared/console/api.js"),
)

#: Secrets and leftovers where the app's files are. None of them may get into anything that is
#: uploaded, built or published.
PLANTED = (
    ".env",
    "certificate.pem",
    "cli/.#options.py",
    "cli/data/local.settings.json",
    "cli/data/prices.json.bak",
    "cli/id_rsa",
    "devhost/http/id_rsa",
    "id_rsa",
    "local.settings.json",
    "publish_function/.env",
    "publish_function/id_rsa",
    "publish_function/local.settings.json",
    "publish_function/notes/secret.json",
    "pushgrid/testing/id_rsa",
    "server/http/id_rsa",
    "shared/.env",
    "shared/__pycache__/clock.cpython-313.pyc",
    "shared/certificate.pfx",
    "shared/console/.env",
    "shared/console/key.pem",
    "shared/console/notes.txt",
    "shared/console/tests/notes",
    "shared/engine/id_rsa",
    "shared/engine/requirements.txt",
    "shared/id_rsa",
    "shared/local.settings.json",
    "testbed/id_rsa",
    *LEFT_BESIDE,
)


def plant(root: Path) -> None:
    """Write each file of `PLANTED` below *root*."""
    for each in PLANTED:
        (root / each).parent.mkdir(parents=True, exist_ok=True)
        (root / each).write_text("secret")


def package_list(root: Path = ROOT) -> list[Path]:
    """Return the files to upload, relative to *root*, as git reads `.funcignore`."""
    with tempfile.TemporaryDirectory() as folder:
        git = ["git", f"--git-dir={folder}", f"--work-tree={root}"]
        subprocess.run([*git, "init", "--quiet"], check=True)
        listed = subprocess.run(
            [*git, "ls-files", "-z", "--others", "--exclude-from=.funcignore"],
            cwd=root,
            check=True,
            capture_output=True,
            text=True,
        )
    return sorted(Path(each) for each in listed.stdout.split("\0") if each)


def size_of(paths: list[Path]) -> int:
    """Return the bytes of *paths*."""
    return sum((ROOT / path).stat().st_size for path in paths)


def requirements(file: str) -> list[tuple[Requirement, list[str]]]:
    """Return the pins of a file in the root, with their hashes; without those of other files."""
    lines = (ROOT / file).read_text().replace("\\\n", "").splitlines()
    pins = [line.split(" --hash=") for line in lines if line and line[0] not in "#-"]
    return [(Requirement(pin), [each.strip() for each in hashes]) for pin, *hashes in pins]


def imported_modules(code: str) -> set[str]:
    """Return the modules that *code* imports; of `from a import b` only `a`: `b` may be a name."""
    found = set()
    for node in ast.walk(ast.parse(code)):
        match node:
            case ast.Import():
                found |= {alias.name for alias in node.names}
            case ast.ImportFrom(module=str(module), level=0):
                found.add(module)
    return found


def tracked(*paths: str) -> set[str]:
    """Return the files below *paths* that git has or is about to have."""
    command = ["git", "ls-files", "--", *paths]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    return set(listed.stdout.split())


@cache
def size_of_requirements() -> int:
    """Return the bytes that `requirements.txt` takes, installed as it is here."""
    names = {each.name for each, _ in requirements("requirements.txt")}
    files = [file for name in names for file in importlib.metadata.files(name) or ()]
    paths = [Path(str(file.locate())) for file in files if file.suffix != ".pyc"]
    return sum(path.stat().st_size for path in paths if path.is_file())


def summary() -> str:
    """Say how large the package is."""
    paths = package_list()
    return (
        f"package: {len(paths)} files, {size_of(paths) / 1000:,.0f} kB unpacked; "
        f"its requirements take {size_of_requirements() / 1e6:,.1f} MB where they are installed"
    )


def write_zip(target: Path, root: Path = ROOT) -> None:
    """
    Write the package as the tools upload it: the same files, with the same names.

    Raises:
        OSError: *target* can't be written.
    """
    paths = [path for path in package_list(root) if (root / path).resolve() != target.resolve()]
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as package:
        for path in paths:
            package.write(root / path, path.as_posix())


def main(arguments: list[str]) -> None:
    """Print the list and the size, or write the package."""
    parser = argparse.ArgumentParser(prog="python -m tests.package_list", description=__doc__)
    parser.add_argument("--zip", type=Path, metavar="FILE", help="write the package to FILE")
    parser.add_argument("--size", action="store_true", help="only say how large it is")
    options = parser.parse_args(arguments)
    if options.zip:
        try:
            write_zip(options.zip)
        except OSError as error:
            parser.error(f"--zip: {error}")
    elif not options.size:
        sys.stdout.write("".join(f"{path.as_posix()}\n" for path in package_list()))
    sys.stdout.write(f"{summary()}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
