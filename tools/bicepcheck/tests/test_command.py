"""The command: its output, its exit status, and the limits that it prints."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tools.bicepcheck import __main__ as command
from tools.bicepcheck.check import LIMITS
from tools.bicepcheck.score import EXAMPLE
from tools.bicepcheck.types import resource_types, schema

NOTED = [
    "Microsoft.Insights/actionGroups",
    "Microsoft.Insights/diagnosticSettings",
    "Microsoft.Insights/metricAlerts",
    "Microsoft.Insights/scheduledQueryRules",
    "Microsoft.Network/privateDnsZones",
    "Microsoft.Network/privateDnsZones/virtualNetworkLinks",
]
CACHES = (schema._program, schema._cache_folder, schema.schema, resource_types.known)


@pytest.fixture(autouse=True)
def _no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")


def test_good_templates_pass_and_the_limits_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """`make infra` checks ours."""
    assert command.main([str(EXAMPLE)]) == 0
    output = capsys.readouterr()
    limits = [
        *(f"{name}: compared with types.json, as azmcp does not have it" for name in NOTED),
        *LIMITS,
        "what the Bicep compiler reports: neither bicep nor az bicep is installed",
    ]
    assert output.out == ""
    printed = [line for line in output.err.splitlines() if not line.startswith("reading ")]
    assert printed == [f"unchecked: {line}" for line in sorted(limits)]


def test_a_problem_is_a_line_with_file_line_and_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "main.bicep").write_text("var a = 1\nvar b = c\noutput d int = b\n")
    assert command.main([str(tmp_path)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert "main.bicep:2 unknown-name 'c' is not declared" in lines
    assert "main.bicep:1 unused nothing uses 'a'; delete it" in lines


def test_json_is_one_document(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "main.bicep").write_text("var a = 1\n")
    assert command.main([str(tmp_path), "--json"]) == 1
    message = "nothing uses 'a'; delete it"
    assert json.loads(capsys.readouterr().out)["problems"] == [
        {"file": "main.bicep", "line": 1, "code": "unused", "message": message}
    ]


def test_the_rules_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--rules"]) == 0
    assert (
        "unused: Every declaration is used. [Bicep's compiler and linter;"
        in capsys.readouterr().out
    )


@pytest.mark.parametrize("name", ["nowhere", "main.bicep", None])
def test_a_folder_is_required(
    name: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "main.bicep").touch()
    with pytest.raises(SystemExit) as ended:
        command.main([str(tmp_path / name)] if name else [])
    assert ended.value.code == 2
    wanted = f"there is no folder {tmp_path / name}" if name else "required: DIR"
    assert wanted in capsys.readouterr().err


def test_without_schemas_nothing_passes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(schema, "ROOT", tmp_path)
    for cached in CACHES:
        cached.cache_clear()
    try:
        assert command.main([str(EXAMPLE)]) == 2
    finally:
        for cached in CACHES:
            cached.cache_clear()
    assert "make setup" in capsys.readouterr().err


@pytest.mark.parametrize(
    "name", ["Microsoft.Nobody/sites", "Microsoft.Web/site", "Microsoft.Web/sites/configs", "sites"]
)
def test_azmcp_answers_that_there_is_no_such_type(name: str) -> None:
    """It has a different message for each kind of wrong name; the cache is not used."""
    assert schema.ask(name) is None


@pytest.mark.parametrize(
    ("name", "script", "status"),
    [
        ("bicep", 'echo "$3(7,1) : Error BCP999: from the compiler [https://x]" >&2; exit 1', 1),
        (
            "az",  # `az bicep version` first, then `az bicep build --stdout --file MAIN`
            '[ "$2" = version ] || echo "WARNING: $5(7,3) : Warning BCP999: from the compiler" >&2',
            1,
        ),
        ("az", '[ "$2" = build ]', 0),  # az without bicep
    ],
)
def test_an_installed_compiler_is_run(
    name: str,
    script: str,
    status: int,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
    (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}/bin{os.pathsep}/usr/bin")
    assert command.main([str(EXAMPLE)]) == status
    output = capsys.readouterr()
    assert ("main.bicep:7 BCP999 from the compiler" in output.out) == (status == 1)
    assert ("neither bicep nor az bicep" in output.err) == (status == 0)
