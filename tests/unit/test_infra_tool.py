"""`make infra`, with a stand-in for Bicep's compiler: what it compares, says, writes and skips."""

from __future__ import annotations

import json
import re
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

from tools import infra

ROOT = Path(__file__).parents[2]
#: Does to the copy what the folder `made` says, and reports what is in `report`.
STAND_IN = """#!{python}
import pathlib, shutil, sys
made, what = pathlib.Path({made!r}), sys.argv[1]
if what == "--version":
    sys.exit(print("Bicep CLI version", (made / "version").read_text(), "(a1b2c3d4e5)"))
if (made / "idle").exists() and (made / "idle").read_text() == what:
    sys.exit()
if what == "build":
    print((made / "main.json").read_text())
elif what == "snapshot":
    shutil.copy(made / "default.snapshot.json", "infra/tests/default.snapshot.json")
elif (made / "main.bicep").exists():
    shutil.copy(made / "main.bicep", "infra/main.bicep")
print((made / "report").read_text(), file=sys.stderr)
sys.exit((made / "fails").exists() and what != "format")
"""
QUEUE = {"id": "/subscriptions/0/providers/A/queues/waiting", "properties": {"days": 7}}
TABLE = {"id": "/subscriptions/0/providers/A/tables/topics"}


class Compiler:
    """A checkout, and what the compiler makes of it."""

    def __init__(self, folder: Path) -> None:
        self.root, self.made = folder / "checkout", folder / "made"
        (self.root / "infra/tests").mkdir(parents=True)
        (self.root / "infra/main.bicep").write_text("// ours\n")
        (self.root / "infra/tests/default.bicepparam").touch()
        self.made.mkdir()
        (self.made / "report").touch()
        self.program = folder / "stand-in"
        self.program.write_text(STAND_IN.format(python=sys.executable, made=str(self.made)))
        self.program.chmod(0o755)
        self.makes()

    def makes(
        self, *resources: Any, version: str = "1.2.3.4", most: int = 9, **outputs: str
    ) -> None:
        snapshot = {"predictedResources": resources or [QUEUE, TABLE], "outputs": outputs}
        (self.made / "default.snapshot.json").write_text(json.dumps(snapshot))
        parameters = {"size": {"type": "int", "maxValue": most}}
        metadata = {"_generator": {"version": version}}
        template = {"metadata": metadata, "parameters": parameters, "resources": {}}
        (self.made / "main.json").write_text(json.dumps(template | {"outputs": {}}))
        (self.made / "version").write_text(version.rpartition(".")[0])


@pytest.fixture
def compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Compiler:
    one = Compiler(tmp_path)
    monkeypatch.setattr(infra, "ROOT", one.root)
    monkeypatch.setenv("BICEP", str(one.program))
    assert infra.main(["--update"]) == 0
    return one


@pytest.mark.usefixtures("compiler")
def test_what_is_as_committed_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()

    assert infra.main([]) == 0
    assert capsys.readouterr().out == ""


def test_each_property_that_differs_is_named_until_it_is_written(
    compiler: Compiler, capsys: pytest.CaptureFixture[str]
) -> None:
    compiler.makes(QUEUE | {"properties": {"days": 8}, "kind": "x"}, most=8, URL="https://a")
    (compiler.made / "main.bicep").write_text("// formatted\n")
    capsys.readouterr()

    assert infra.main([]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "infra/main.bicep: not as Bicep's formatter writes it",
        "infra/tests/main.json: parameters.size.maxValue was 9, is 8",
        'infra/tests/default.snapshot.json: outputs.URL is new: "https://a"',
        "infra/tests/default.snapshot.json: A/queues/waiting.properties.days was 7, is 8",
        'infra/tests/default.snapshot.json: A/queues/waiting.kind is new: "x"',
        "infra/tests/default.snapshot.json: A/tables/topics is gone",
        "Review these differences like code; `make infra UPDATE=1` writes them.",
    ]
    assert infra.main(["--update"]) == 0
    assert infra.main([]) == 0
    assert (compiler.root / "infra/main.bicep").read_text() == "// formatted\n"


def test_the_order_of_resources_and_outputs_is_free(compiler: Compiler) -> None:
    compiler.makes(QUEUE, TABLE, B="2", A="1")
    infra.main(["--update"])
    compiler.makes(TABLE, QUEUE, A="1", B="2")

    assert infra.main([]) == 0
    committed = json.loads((compiler.root / "infra/tests/default.snapshot.json").read_text())
    assert list(committed["outputs"]) == ["A", "B"]


def test_another_version_of_the_compiler_is_named_first(
    compiler: Compiler, capsys: pytest.CaptureFixture[str]
) -> None:
    compiler.makes(version="1.3.0.1")
    assert infra.main([]) == 0, "a version alone is no difference"
    (compiler.made / "report").write_text("Warning x")
    both = "Bicep 1.2.3.4 made the committed files, and this is 1.3.0"
    capsys.readouterr()

    assert infra.main([]) == 1
    assert capsys.readouterr().out.startswith(f"{both}.1: ")
    (compiler.made / "fails").touch()
    assert infra.main([]) == 1
    assert capsys.readouterr().out.startswith(f"{both}: ")
    (compiler.made / "report").write_text("")
    (compiler.made / "fails").unlink()
    compiler.makes(version="1.3.0.1", most=8)
    assert infra.main([]) == 1
    assert capsys.readouterr().out.startswith(f"{both}.1: ")


@pytest.mark.parametrize("fails", [False, True])
def test_a_warning_is_a_failure_that_is_told_once_without_colours(
    compiler: Compiler, capsys: pytest.CaptureFixture[str], *, fails: bool
) -> None:
    (compiler.made / "report").write_text("\x1b[33minfra/main.bicep(1,2) : Warning x\x1b[0m\n")
    if fails:
        (compiler.made / "fails").touch()
    capsys.readouterr()

    for arguments in ([], ["--update"]):
        assert infra.main(arguments) == 1
        assert capsys.readouterr().out.splitlines() == [
            "infra/main.bicep(1,2) : Warning x",
            "infra/: repair what the compiler reports.",
        ]


@pytest.mark.parametrize(
    ("what", "report"),
    [
        ("build", "bicep build infra/main.bicep --stdout: exit status 0, and no output"),
        ("snapshot", "infra/tests/default.bicepparam: the compiler has written no snapshot"),
    ],
)
def test_a_compiler_that_does_nothing_is_a_failure(
    compiler: Compiler, capsys: pytest.CaptureFixture[str], what: str, report: str
) -> None:
    (compiler.made / "idle").write_text(what)
    capsys.readouterr()

    assert infra.main([]) == 1
    assert report in capsys.readouterr().out.splitlines()


@pytest.mark.usefixtures("compiler")
def test_a_snapshot_without_parameters_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    (infra.ROOT / "infra/tests/default.bicepparam").unlink()
    capsys.readouterr()

    assert infra.main([]) == infra.main(["--update"]) == 1
    named = "infra/tests/default.snapshot.json: default.bicepparam is missing"
    assert capsys.readouterr().out.splitlines() == [named, named]


def test_without_a_compiler_its_steps_are_skipped_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("BICEP", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))

    assert infra.main([]) == 0
    assert capsys.readouterr().out.startswith("Skipped: formatter, linter, main.json and snapshots")
    assert infra.main(["--update"]) == 1, "nothing was written"


def test_the_compiler_is_the_named_one_or_that_of_the_path_or_that_of_az(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [tmp_path / name for name in ("home/.azure/bin/bicep", "path/bicep", "other")]
    for program in found:
        program.parent.mkdir(parents=True, exist_ok=True)
        program.touch(0o755)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("BICEP", raising=False)

    chosen = [infra.compiler()]
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    chosen.append(infra.compiler())
    monkeypatch.setenv("BICEP", str(tmp_path / "other"))
    chosen.append(infra.compiler())
    assert chosen == [str(program) for program in found]


def test_a_name_of_no_program_is_told_and_stops_no_collection(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("BICEP", "gone")
    told = "BICEP names no program: gone"

    collected = runpy.run_path(str(ROOT / "tests/bicep.py"))
    assert collected["needs_compiler"].args == (False,), "the tests fail, they are not skipped"
    with pytest.raises(infra.MissingCompiler, match=told):
        collected["snapshot"](tmp_path / "all.bicepparam")
    with pytest.raises(SystemExit, match=told):
        runpy.run_path(str(ROOT / "tests/bicep.py"), run_name="__main__")
    assert infra.main([]) == 1
    assert capsys.readouterr().out == f"{told}\n"


def compiled(symbol: str = "site", **changes: Any) -> dict[str, Any]:
    """Return a compiled template with a module that has a resource of that symbol."""
    module = {
        "definitions": {"sizeType": {"type": "int", "allowedValues": [1, 2]}},
        "parameters": {"size": {"$ref": "#/definitions/sizeType"} | changes.pop("size", {})},
        "resources": {
            symbol: {"type": "Web/sites", "name": "a"},
            "other": {"type": "Web/sites/config", "dependsOn": [symbol]},
            "loop": {"type": "A/queues", "copy": {"name": "loop", "count": 2}} | changes,
        },
        "outputs": {"url": {"type": "string", "value": f"[reference('{symbol}').host]"}},
    }
    resources = {"app": {"type": infra.MODULE, "properties": {"template": module}}}
    return infra.without_evaluated({"resources": resources})


def test_symbols_order_and_descriptions_are_not_compared() -> None:
    described = {"metadata": {"description": "How large."}}

    assert compiled("functionApp", size=described) == compiled()
    assert compiled(dependsOn=["site", "other"]) == compiled(dependsOn=["other", "site"])
    assert compiled()["resources"]["app"]["parameters"]["size"]["allowedValues"] == [1, 2]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"size": {"maxValue": 2}}, "resources.app.parameters.size.maxValue is new"),
        ({"dependsOn": ["other"]}, "resources.app.resources.A/queues is new"),
        ({"copy": {"mode": "serial"}}, "resources.app.resources.A/queues is new"),
        ({"@options": {"wait": 1}}, "resources.app.resources.A/queues is new"),
    ],
)
def test_what_snapshots_lack_is_compared(change: dict[str, Any], named: str) -> None:
    (line,) = infra.differences(compiled(), compiled(**change))

    assert line.startswith(named)


def test_an_order_tells_resources_of_one_type_apart_by_their_names() -> None:
    def waits(*after: str) -> dict[str, Any]:
        queues = {f"queue{each}": {"type": "A/queues", "name": f"q{each}"} for each in "ab"}
        table = {"type": "A/tables", "name": "t", "dependsOn": list(after)}
        return infra.without_evaluated({"resources": queues | {"table": table}})

    (line,) = infra.differences(waits("queuea"), waits("queueb"))
    assert line == 'resources.A/tables.dependsOn[0] was "A/queues qa", is "A/queues qb"'


def test_every_parameter_has_a_value_in_a_snapshot() -> None:
    """Otherwise no snapshot shows what it does."""
    parameters = json.loads((ROOT / infra.TEMPLATE).read_text())["parameters"]
    texts = [path.read_text() for path in (ROOT / "infra/tests").glob("*.bicepparam")]
    given = {name for text in texts for name in re.findall(r"^param (\w+) =", text, re.MULTILINE)}

    assert given == set(parameters)
