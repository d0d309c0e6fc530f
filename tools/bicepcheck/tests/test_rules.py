"""Rules one by one: a small template with one fault and the code of its problem, or with none."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.bicepcheck.check import check
from tools.bicepcheck.score import EXAMPLE, problems_of

ACCOUNT = """param location string
resource st 'Microsoft.Storage/storageAccounts@2025-01-01' = {
  name: 'stpushgrid'
  location: location
  kind: 'StorageV2'
  sku: { name: 'Standard_LRS' }
  properties: { allowSharedKeyAccess: false }
}
output name string = st.name
"""
SKU = "resourceInput<'Microsoft.Storage/storageAccounts@2025-01-01'>.sku.name"

FAULTS = [
    ("output a string = 'x", "syntax"),
    ("output a object = { b: 1 c: 2 }", "syntax"),
    ("output c string = 'a\\b'", "syntax"),
    ("# a comment of another language\noutput c int = 3", "syntax"),
    ("output a string = b", "unknown-name"),
    ("var a = { ...b }\noutput c object = a", "unknown-name"),
    ("output a string = toUppper('b')", "unknown-function"),
    ("output a string = toUpper(1)", "type"),
    ("output a strin = 'b'", "unknown-type"),
    ("output a int = 'b'", "type"),
    ("output a bool = 1 > 'b'", "type"),
    ("var a int = 'b'\noutput c int = a", "type"),
    (f"param a {SKU} = 'Standard_LRS'\noutput e int = a", "type"),
    ("output a string = newGuid()", "changes-each-time"),
    ("param a string = newGuid()\noutput b string = a", "changes-each-time"),
    ("param a string\noutput b string = 'c'", "unused"),
    ("#disable-next-line no-unused-vars\nvar a = 1\nvar b = 2\noutput c int = 3", "unused"),
    ("param a string\nparam a int\noutput b string = a", "declared-twice"),
    ("@secure()\nparam a string = 'b'\nvar c = length(a)\noutput d int = c", "secret-default"),
    ("param a 'b' | 'c' = 'd'\noutput e string = a", "value"),
    ("type a = ('b' | 'c')\nparam d a = 'e'\noutput f string = d", "value"),
    ("var a = b\nvar b = a\noutput c string = b", "cycle"),
    ("targetScope = 'group'\noutput a string = 'b'", "scope"),
    ("import { a } from 'no.bicep'\noutput b a = 'c'", "no-file"),
    ("output a object = loadJsonContent('no.json')", "no-file"),
    ("module a 'no.bicep' = {}", "no-file"),
    ("module a 'main.bicep' = {}", "cycle"),
    (ACCOUNT.replace("storageAccounts@", "storageAccount@"), "resource-type"),
    (ACCOUNT.replace("allowSharedKeyAccess", "allowSharedKey"), "unknown-property"),
    (ACCOUNT.replace("Standard_LRS", "Standard_XRS"), "value"),
    (ACCOUNT.replace("  kind: 'StorageV2'\n", ""), "missing"),
    (ACCOUNT.replace("false", "'no'"), "type"),
    (ACCOUNT.replace("  kind", "  id: 'x'\n  kind"), "read-only"),
    (ACCOUNT.replace("st.name", "st.properties.endpoint"), "unknown-member"),
    ("targetScope = 'subscription'\n" + ACCOUNT, "scope"),
    (ACCOUNT, "policy"),
    (ACCOUNT.replace("stpushgrid", "st-pushgrid"), "name"),
    ("@maxLength(25)\nparam n string\n" + ACCOUNT.replace("'stpushgrid'", "n"), "name"),
]

VALID = [
    "var a = { b: 1 }\nvar c = { ...a, d: 2 }\noutput e int = c.b + c.d",
    "var a = { b: 1 }\nvar c = {\n  ...a\n  b: 2\n}\noutput e int = c.b",
    "param a string[] = []\nvar b = [\n  ...a\n  'c'\n]\noutput d string[] = b",
    "param a string[] = []\noutput d string[] = [...(empty(a) ? ['b'] : a), 'c']",
    "var a string = 'b'\noutput c string = a",
    "var a { b: int } = { b: 1 }\noutput c int = a.b",
    "type a = ('b' | 'c')\nparam d a = 'b'\noutput e string = d",
    "param a ('b' | 'c')[] = ['b']\noutput e array = a",
    "param a string?\noutput e string = a!",
    "param a { b: { c: string }? }\noutput e string = a.b!.c",
    "param a { b: { c: string }? }\noutput e string = a.?b.?c ?? ''",
    f"param a {SKU} = 'Standard_LRS'\noutput e string = a",
    "#disable-next-line no-unused-vars\nvar a = 1\noutput b int = 2",
    "output a string = '... and ${toUpper('b')}... // no comment'",
    "output a string = '''\n...b: {0}\n// kept\n'''",
    "func f(a int) int => a + 1\noutput b int[] = map([1, 2], x => f(x))",
    "output a object = reduce([{ b: 1 }, { c: 2 }], {}, (all, one) => union(all, one))",
    "output a object = toObject([{ b: 'x' }], one => one.b, one => one)",
    "var a = 'x\\u{41}\\${b}\\n\\''\noutput c string = a",
]


def codes(folder: Path, text: str) -> set[str]:
    (folder / "main.bicep").write_text(text + "\n", encoding="utf-8")
    return {one.code for one in check(folder).problems}


@pytest.mark.parametrize(
    ("text", "code"), FAULTS, ids=[f"{n}-{code}" for n, (_, code) in enumerate(FAULTS)]
)
def test_a_fault_has_its_code(tmp_path: Path, text: str, code: str) -> None:
    assert code in codes(tmp_path, text)


@pytest.mark.parametrize("text", VALID)
def test_valid_bicep_has_no_problem(tmp_path: Path, text: str) -> None:
    assert not codes(tmp_path, text)


@pytest.mark.parametrize(
    ("file", "find", "replace", "line", "code"),
    [
        ("modules/app.bicep", "name: 'FC1'", "name: 'Y1'", 54, "policy"),
        ("modules/app.bicep", "serverFarmId: plan.id", "serverFarmId: plan.name", 76, "reference"),
        ("modules/app.bicep", "PUSHGRID_PROFILE:", "PUSHGRID_PROFIL:", 136, "setting"),
        ("modules/storage.bicep", "  'retries-poison'\n", "", 108, "queue"),
        ("modules/storage.bicep", "  'topics'\n", "", 120, "table"),
        ("modules/storage.bicep", "  'poison'\n", "", 93, "container"),
        ("modules/storage.bicep", "'${payloadContainer}/'", "'body/'", 134, "lifecycle"),
        ("modules/alerts.bicep", "window: 'PT30M'", "window: 'PT31M'", 130, "duration"),
        ("modules/alerts.bicep", "Line.oldest_minutes", "Line.oldest", 134, "query"),
        ("modules/rbac.bicep", "974c5e8b", "974c5e8c", 120, "role"),
        ("modules/keyvault.bicep", "'pushgrid-admin-key'", "'admin_key'", 45, "name"),
        ("modules/app.bicep", "empty(subnetId) ?", "!empty(subnetId) ?", 81, "condition"),
        ("main.parameters.json", "AZURE_LOCATION", "LOCATION", 6, "parameters"),
        ("main.bicep", "@secure()\n", "", 149, "secret"),
    ],
)
def test_a_fault_of_a_deployment_has_its_file_and_line(
    file: str, find: str, replace: str, line: int, code: str
) -> None:
    entry = {"id": "x", "file": file, "find": find, "replace": replace}
    assert (file, line, code) in {(one.file, one.line, one.code) for one in problems_of(entry)}


def test_the_example_has_no_problem() -> None:
    assert not check(EXAMPLE).problems
