"""The command: what it says, and what it admits not to know."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from tools.bicepcheck import check as command
from tools.bicepcheck.score import EXAMPLE, ROOT
from tools.bicepcheck.types import resource_types, schema

INFRA = ROOT / "infra"


@pytest.fixture(autouse=True)
def _no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")


@pytest.mark.parametrize("folder", [INFRA, EXAMPLE], ids=["infra", "example"])
def test_good_templates_pass(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main([str(folder)]) == 0
    assert capsys.readouterr().out == ""


def test_a_problem_is_a_line_with_its_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "main.bicep").write_text("var a = 1\nvar b = c\noutput d int = b\n")
    assert command.main([str(tmp_path)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert "main.bicep:2 unknown-name there is no 'c'" in lines
    assert "main.bicep:1 unused nothing uses 'a'" in lines


def test_programs_get_one_document(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "main.bicep").write_text("var a = 1\n")
    assert command.main([str(tmp_path), "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["problems"] == [
        {"file": "main.bicep", "line": 1, "code": "unused", "message": "nothing uses 'a'"}
    ]


def test_what_it_cannot_see_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """The list is pinned: what is added to it, somebody decided."""
    command.main([str(INFRA)])
    told = capsys.readouterr().err.splitlines()
    own = [
        "Microsoft.Insights/actionGroups",
        "Microsoft.Insights/diagnosticSettings",
        "Microsoft.Insights/metricAlerts",
        "Microsoft.Insights/scheduledQueryRules",
        "Microsoft.Network/privateDnsZones",
        "Microsoft.Network/privateDnsZones/virtualNetworkLinks",
    ]
    assert told == [
        f"unchecked: {line}"
        for line in sorted(
            [
                *(f"{name}: compared with types.json, as azmcp does not hold it" for name in own),
                "the linter's rules about looks, and of azure.yaml all but the service's name",
                "values that Azure makes, where an expression goes on with them",
                command.NEVER[0],
                "what the Bicep compiler says: neither bicep nor az bicep is there",
                "whether queries find what they look for: they are read for names, not run",
            ]
        )
    ]


@pytest.mark.parametrize("name", ["nowhere", "main.bicep"])
def test_what_is_no_folder_is_said_so(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "main.bicep").touch()
    with pytest.raises(SystemExit) as ended:
        command.main([str(tmp_path / name)])
    assert ended.value.code == 2
    assert f"there is no folder {tmp_path / name}" in capsys.readouterr().err


def test_without_schemas_nothing_passes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(schema, "ROOT", tmp_path)
    for made in (schema._program, schema._kept, schema.raw, resource_types.known):
        made.cache_clear()
    try:
        assert command.main([str(EXAMPLE)]) == 2
    finally:
        for made in (schema._program, schema._kept, schema.raw, resource_types.known):
            made.cache_clear()
    assert "make setup" in capsys.readouterr().err


@pytest.mark.parametrize(
    "name", ["Microsoft.Nobody/sites", "Microsoft.Web/site", "Microsoft.Web/sites/configs", "sites"]
)
def test_azmcp_says_that_there_is_no_such_type(name: str) -> None:
    """In words of its own for each kind of wrong name; asked anew, whatever was kept."""
    assert schema._ask(name) is None


def test_a_compiler_on_the_path_has_its_say(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "bicep"
    program.write_text(
        '#!/bin/sh\necho "$3(7,1) : Error BCP999: said by the compiler [https://x]" >&2\nexit 1\n'
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}/bin{os.pathsep}/usr/bin")
    assert command.main([str(EXAMPLE)]) == 1
    assert "main.bicep:7 BCP999 said by the compiler" in capsys.readouterr().out


def test_the_compiler_of_the_azure_command_line_has_its_say(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`az bicep build --stdout --file MAIN`, once `az bicep version` has said that it is there."""
    program = tmp_path / "az"
    program.write_text(
        '#!/bin/sh\n[ "$2" = version ] && exit 0\n'
        'echo "WARNING: $5(9,3) : Warning BCP998: said by az" >&2\n'
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}/bin{os.pathsep}/usr/bin")
    assert command.main([str(EXAMPLE)]) == 1
    said = capsys.readouterr()
    assert "main.bicep:9 BCP998 said by az" in said.out
    assert "neither bicep nor az bicep" not in said.err
