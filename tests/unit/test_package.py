"""What is deployed: everything the app needs, and nothing else."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

import pytest

from tests.package_list import (
    LEFT_BESIDE,
    PLANTED,
    ROOT,
    imported_modules,
    main,
    package_list,
    size_of,
    summary,
    write_zip,
)

#: What work leaves behind; an azd environment and local settings hold secrets.
LEFT_BEHIND = [
    *[".azure/dev/.env", ".azure/config.json", ".azurite/__azurite_db_queue__.json", ".coverage"],
    *[".DS_Store", ".git/config", ".github/workflows/ci.yml", ".hypothesis/examples/x"],
    *[".idea/workspace.xml", ".import-linter.log", ".mypy_cache/x.json", ".venv-worker/lib/x.py"],
    *[".venv/lib/python3.11/site-packages/x.py", ".vscode/settings.json", "infra/main.bicep"],
    *["__azurite_db_blob__.json", "__blobstorage__/x", "pushgrid/command.py", "compose.yaml"],
    "app.zip",  # docs/deploy.md makes it here
    "pushgrid_env/lib/python3.11/site-packages/x.py",  # `azd restore` makes it
    *["docker/production.Dockerfile", "local.settings.example.json", "scratch/.gitkeep"],
    *["node_modules/azurite/package.json", "scratch/publish.py", "tests/unit/test_package.py"],
    "publish_function/__pycache__/__init__.cpython-311.pyc",
    "shared/engine/__pycache__/x.cpython-311.pyc",
    "tools/infra.py",
    # What nobody has thought of:
    *["backup/orders.json", "notes.txt", "publish_function/notes/secret.py", "scripts/deploy.py"],
    *["shared/console/data.json", "shared/console/tests/console.js", "sub/host.json"],
    *PLANTED,
]


def test_the_package_holds_the_app_and_nothing_else() -> None:
    functions = {path.parent for path in ROOT.glob("*_function/function.json")}
    app = {Path("host.json"), Path("requirements.txt")}
    app |= {each.relative_to(ROOT) for each in (ROOT / "shared").rglob("*.py")}
    app |= {each.relative_to(ROOT) for each in (ROOT / "shared/console").iterdir()}
    for folder in functions:
        app |= {Path(folder.name) / "__init__.py", Path(folder.name) / "function.json"}

    assert len(functions) >= 8
    assert set(package_list()) == app


def test_every_module_that_the_app_imports_is_in_the_package() -> None:
    packed = set(package_list())
    code = [path for path in packed if path.suffix == ".py"]
    imported = {name for path in code for name in imported_modules((ROOT / path).read_text())}
    ours = {name for name in imported if name.partition(".")[0] in _TOP_LEVEL}

    assert {name.partition(".")[0] for name in ours} == {"shared"}
    for name in ours:
        path = Path(*name.split("."))
        assert path / "__init__.py" in packed or path.with_suffix(".py") in packed, name


def test_what_work_leaves_behind_is_not_uploaded(tmp_path: Path) -> None:
    for each in (*LEFT_BEHIND, "host.json", "shared/clock.py"):
        file = tmp_path / each
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    (tmp_path / ".funcignore").write_text((ROOT / ".funcignore").read_text())

    assert package_list(tmp_path) == [Path("host.json"), Path("shared/clock.py")]


def test_core_tools_read_the_same_list() -> None:
    """
    They compare patterns with the beginning of a path, whatever their order.

    A pattern with `!` wins over all others, and brackets are no class of characters. Whatever the
    patterns say, they leave out local.settings.json. So no pattern keeps what is left beside the
    app's files from them.
    """
    patterns = [line for line in (ROOT / ".funcignore").read_text().splitlines() if line[0] != "#"]

    def are_named(path: str, patterns: list[str]) -> bool:
        texts = [re.escape(each.lstrip("!").removeprefix("/")) for each in patterns]
        texts = [each.replace(r"\*\*", ".+").replace(r"\*", "[^/]+") for each in texts]
        return any(re.match(rf"{each}\b", path, re.ASCII) for each in texts)

    left_out = [each for each in patterns if each[0] != "!"]
    taken_in = [each for each in patterns if each[0] == "!"]
    app = [each.as_posix() for each in package_list()]
    others = [
        each
        for each in LEFT_BEHIND
        if not each.endswith("local.settings.json") and each not in LEFT_BESIDE
    ]
    package = [
        path for path in app + others if are_named(path, taken_in) or not are_named(path, left_out)
    ]
    assert package == app


def test_what_git_ignores_is_not_uploaded(tmp_path: Path) -> None:
    patterns = (ROOT / ".gitignore").read_text().split()
    for pattern in (each for each in patterns if not each.startswith("!")):
        path = tmp_path / pattern.replace("*", "x")
        if path.suffix:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        else:
            path.mkdir(parents=True, exist_ok=True)
            (path / "file").touch()
    (tmp_path / ".funcignore").write_text((ROOT / ".funcignore").read_text())

    assert package_list(tmp_path) == []


def test_the_package_is_small_and_says_how_small() -> None:
    assert size_of(package_list()) < 2_000_000
    assert "kB unpacked" in summary()


def test_the_zip_holds_the_list(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["--zip", str(tmp_path / "app.zip")])

    with zipfile.ZipFile(tmp_path / "app.zip") as package:
        assert [Path(name) for name in package.namelist()] == package_list()
        assert package.read("host.json") == (ROOT / "host.json").read_bytes()
    assert capsys.readouterr().out == f"{summary()}\n"


def test_the_zip_holds_no_zip(tmp_path: Path) -> None:
    (tmp_path / ".funcignore").write_text("")
    for _ in range(2):
        write_zip(tmp_path / "made.package", tmp_path)

    with zipfile.ZipFile(tmp_path / "made.package") as package:
        assert package.namelist() == [".funcignore"]


def test_git_keeps_no_secrets_of_an_environment() -> None:
    assert {".azure/", ".env", "*.zip"} <= set((ROOT / ".gitignore").read_text().split())


_TOP_LEVEL = {path.name for path in ROOT.iterdir() if path.is_dir()}
