"""Rewrites Bicep syntax that the parser's grammar lacks, line by line, into syntax that it has."""

from __future__ import annotations

import re

SPREAD = "..."
"""The key of a spread in an object. In a list a spread is written ``!!!``, which nobody writes."""

_INERT = re.compile(r"('''.*?'''|'(?:\\.|[^'\\\n])*'|//[^\n]*|/\*.*?\*/)", re.DOTALL)
"""Strings and comments, in which nothing is rewritten."""

_NULLABLE = re.compile(r"^((?:(?:param|type) .*)?[\w\]})'])\?([ \t]*(?://.*)?)$", re.MULTILINE)
"""`?` at the end of a declaration, after which the grammar misses the next one."""

_GROUPED = re.compile(r"^(type \w+ = )\(([^()\n]*)\)([ \t]*(?://.*)?)$", re.MULTILINE)
_NON_NULL = re.compile(r"^(output [^=\n]*= )(\S.*)!([ \t]*(?://.*)?)$", re.MULTILINE)
"""`!` at the end of an output, where the grammar expects another operator."""

_TYPED_VAR = re.compile(r"^var([ \t]+(\w+)[ \t]+[\w'{(\[])", re.MULTILINE)
_RESOURCE_TYPE = re.compile(r"\b(resource(?:In|Out)put)<'([^'\n]+)'>((?:\.\w+|\[\*\])*)")


def rewritten(text: str) -> tuple[str, frozenset[str]]:
    """Return a file in the grammar's syntax, and the variables that it declares as parameters."""
    text = _RESOURCE_TYPE.sub(r"'\1<\2>\3'", text)
    text = _NULLABLE.sub(r"\1 | null\2", text)
    text = _NON_NULL.sub(r"\1any(\2)\3", text)
    text = _GROUPED.sub(r"\1 \2 \3", text)
    typed = frozenset(found[2] for found in _TYPED_VAR.finditer(text))
    return _without_spreads(_TYPED_VAR.sub(r"param\1", text)), typed


def _without_spreads(text: str) -> str:
    found: list[str] = []
    inside = ""
    for at, part in enumerate(_INERT.split(text)):
        for piece in [part] if at % 2 else re.split(r"(\.\.\.|[{}\[\]()])", part):
            if piece and piece in "{[(":
                inside += piece
            elif piece and piece in "}])":
                inside = inside[:-1]
            if piece == SPREAD and inside[-1:] in {"{", "["}:
                found.append(f"'{SPREAD}': " if inside[-1] == "{" else "!!!")
            else:
                found.append(piece)
    return "".join(found)


def resource_type(name: str) -> tuple[str, list[str]] | None:
    """Return the resource type that ``resourceInput<…>`` names, and the path to the member."""
    found = re.fullmatch(r"resource(?:In|Out)put<([^>@]+)@[^>]*>(.*)", name)
    return (found[1], re.findall(r"\w+|\[\*\]", found[2])) if found else None
