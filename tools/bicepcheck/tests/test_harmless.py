"""What an engineer may write: newer Bicep than the parser's grammar, and what a file silences."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.bicepcheck.check import check
from tools.bicepcheck.reading.newer import plain

SKU = "resourceInput<'Microsoft.Storage/storageAccounts@2025-01-01'>.sku.name"

GOOD = [
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
    "#disable-diagnostics no-unused-vars\nvar a = 1\n#restore-diagnostics BCP037\noutput b int = 2",
    "output a string = '... and ${toUpper('b')}... // no comment'",
    "output a string = '''\n...b: {0}\n// kept\n'''",
    "func f(a int) int => a + 1\noutput b int[] = map([1, 2], x => f(x))",
    "output a object = reduce([{ b: 1 }, { c: 2 }], {}, (all, one) => union(all, one))",
    "output a object = toObject([{ b: 'x' }], one => one.b, one => one)",
    "var a = 'x\\u{41}\\${b}\\n\\''\noutput c string = a",
]

BAD = [
    ("var a = { ...b }\noutput c object = a", "unknown-name"),
    ("var a int = 'b'\noutput c int = a", "type"),
    ("type a = ('b' | 'c')\nparam d a = 'e'\noutput f string = d", "value"),
    (f"param a {SKU} = 'Standard_LRS'\noutput e int = a", "type"),
    ("var a = { b: 1 }\nparam c { b: string }\noutput d { b: string } = { ...a }\n", "type"),
    ("#disable-next-line no-unused-vars\nvar a = 1\nvar b = 2\noutput c int = 3", "unused"),
    ("# a comment of another language\noutput c int = 3", "syntax"),
    ("output c string = 'a\\b'", "syntax"),
    ("type a = {\n  b: int\n  c: int\n}\nparam d a\noutput e int = d.b", "unused"),
    ("output a string = 'https://x.blob.core.windows.net'", "hard-coded-url"),
]


@pytest.mark.parametrize("text", GOOD)
def test_ordinary_bicep_is_not_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "main.bicep").write_text(text + "\n", encoding="utf-8")
    assert not check(tmp_path).problems


@pytest.mark.parametrize(("text", "code"), BAD)
def test_and_its_faults_are_found(tmp_path: Path, text: str, code: str) -> None:
    (tmp_path / "main.bicep").write_text(text + "\n", encoding="utf-8")
    assert code in {one.code for one in check(tmp_path).problems}


def test_lines_stay_where_they_are() -> None:
    text = "var a string = 'x'\nvar b = {\n  ...c\n}\ntype d = (1 | 2)\nparam e int?\n"
    assert plain(text).text.count("\n") == text.count("\n")
    assert plain(text).typed == {"a"}
