"""Rules one by one: a small template with one fault, and the code that it gets."""

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

BROKEN = [
    ("output a string = 'x", "syntax"),
    ("output a object = { b: 1 c: 2 }", "syntax"),
    ("output a string = b", "unknown-name"),
    ("output a string = toUppper('b')", "unknown-function"),
    ("output a string = toUpper('b', 'c')", "arguments"),
    ("output a string = toUpper(1)", "type"),
    ("output a strin = 'b'", "unknown-type"),
    ("output a int = 'b'", "type"),
    ("output a bool = 1 > 'b'", "type"),
    ("output a bool = 'x' == 1", "never-equal"),
    ("output a string = environment().name.x", "unknown-member"),
    ("output a string = newGuid()", "changes-each-time"),
    ("param a string = newGuid()\noutput b string = a", "changes-each-time"),
    ("param a string\noutput b string = 'c'", "unused"),
    ("param a string\nparam a int\noutput b string = a", "declared-twice"),
    ("@minimum(1)\nparam a int\noutput b int = a", "unknown-decorator"),
    ("@minValue(1)\nparam a string\noutput b string = a", "decorator"),
    ("@minValue(3)\n@maxValue(2)\nparam a int\noutput b int = a", "range"),
    ("@minValue(3)\nparam a int = 2\noutput b int = a", "type"),
    ("@secure()\nparam a string = 'b'\nvar c = length(a)\noutput d int = c", "secret-default"),
    ("param a 'b' | 'c' = 'd'\noutput e string = a", "value"),
    ("param a { b: string }\noutput c string = a.d", "unknown-member"),
    ("type a = { b: string }\nparam c a?\nvar d = c.b\noutput e string = d", "may-be-null"),
    ("var a = b\nvar b = a\noutput c string = b", "cycle"),
    ("targetScope = 'group'\noutput a string = 'b'", "scope"),
    ("import { a } from 'no.bicep'\noutput b a = 'c'", "no-file"),
    ("output a object = loadJsonContent('no.json')", "no-file"),
    ("module a 'no.bicep' = {}", "no-file"),
    ("module a 'main.bicep' = {}", "cycle"),
    (ACCOUNT.replace("storageAccounts@", "storageAccount@"), "resource-type"),
    (ACCOUNT.replace("2025-01-01", "2024-13-01"), "api-version"),
    (ACCOUNT.replace("allowSharedKeyAccess", "allowSharedKey"), "unknown-property"),
    (ACCOUNT.replace("Standard_LRS", "Standard_XRS"), "value"),
    (ACCOUNT.replace("  kind: 'StorageV2'\n", ""), "missing"),
    (ACCOUNT.replace("false", "'no'"), "type"),
    (ACCOUNT.replace("  kind", "  id: 'x'\n  kind"), "read-only"),
    (ACCOUNT.replace("st.name", "st.properties.endpoint"), "unknown-member"),
    (ACCOUNT.replace("'stpushgrid'", "st.id"), "cycle"),
    ("targetScope = 'subscription'\n" + ACCOUNT, "scope"),
    (ACCOUNT, "policy"),
    (ACCOUNT.replace("stpushgrid", "st-pushgrid"), "name"),
    (
        "@maxLength(25)\nparam n string\n" + ACCOUNT.replace("'stpushgrid'", "n"),
        "name",
    ),
    (ACCOUNT.replace("location: location", "location: resourceGroup().location"), "location"),
]


@pytest.mark.parametrize(
    ("text", "code"), BROKEN, ids=[f"{n}-{b[1]}" for n, b in enumerate(BROKEN)]
)
def test_a_fault_gets_its_code(tmp_path: Path, text: str, code: str) -> None:
    (tmp_path / "main.bicep").write_text(text + "\n", encoding="utf-8")
    assert code in {one.code for one in check(tmp_path).problems}


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
        ("modules/alerts.bicep", "'QueueMessageCount'", "'QueueMessages'", 175, "alert"),
        ("modules/network.bicep", "10.40.1.0/27", "10.41.1.0/27", 58, "network"),
        ("modules/rbac.bicep", "974c5e8b", "974c5e8c", 51, "role"),
        ("modules/keyvault.bicep", "'pushgrid-admin-key'", "'admin_key'", 45, "name"),
        ("modules/app.bicep", "empty(subnetId) ?", "!empty(subnetId) ?", 81, "condition"),
        ("main.parameters.json", "AZURE_LOCATION", "LOCATION", 6, "parameters"),
        ("main.bicep", "@secure()\n", "", 149, "secret"),
    ],
)
def test_a_fault_of_a_deployment_is_found_where_it_is(
    file: str, find: str, replace: str, line: int, code: str
) -> None:
    entry = {"id": "x", "file": file, "find": find, "replace": replace}
    found = {(one.file, one.line, one.code) for one in problems_of(entry)}
    assert (file, line, code) in found


def test_the_example_has_none() -> None:
    assert not check(EXAMPLE).problems
