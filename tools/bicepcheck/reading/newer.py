"""What Bicep has and the parser's grammar lacks, in words that it knows, line by line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

SPREAD = "..."
"""The key of what is spread into an object. In a list it is ``!!!``, which nobody writes."""

_INERT = re.compile(r"'''.*?'''|'(?:\\.|[^'\\\n])*'|//[^\n]*|/\*.*?\*/", re.DOTALL)
"""Text and comments, in which nothing is rewritten."""

_NULLABLE = re.compile(r"^((?:(?:param|type) .*)?[\w\]})'])\?([ \t]*(?://.*)?)$", re.MULTILINE)
"""`?` at the end of a declaration, after which the grammar does not see the next one."""

_GROUPED = re.compile(r"^(type \w+ = )\(([^()\n]*)\)([ \t]*(?://.*)?)$", re.MULTILINE)
_SURE = re.compile(r"^(output [^=\n]*= )(\S.*)!([ \t]*(?://.*)?)$", re.MULTILINE)
"""`!` at the end of an output, where the grammar expects another operator."""

_TYPED_VAR = re.compile(r"^var([ \t]+(\w+)[ \t]+[\w'{(\[])", re.MULTILINE)
_OF_RESOURCE = re.compile(r"\b(resource(?:In|Out)put)<'([^'\n]+)'>((?:\.\w+|\[\*\])*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plain:
    """*text* in the grammar's own words; *typed*: variables that it declares as parameters."""

    text: str
    typed: frozenset[str]


def plain(text: str) -> Plain:
    """Return a file as the grammar knows it."""
    text = _OF_RESOURCE.sub(r"'\1<\2>\3'", text)
    text = _NULLABLE.sub(r"\1 | null\2", text)
    text = _SURE.sub(r"\1any(\2)\3", text)
    text = _GROUPED.sub(r"\1 \2 \3", text)
    typed = frozenset(found[2] for found in _TYPED_VAR.finditer(text))
    return Plain(text=_spread(_TYPED_VAR.sub(r"param\1", text)), typed=typed)


def _spread(text: str) -> str:
    found: list[str] = []
    inside = ""
    for inert, part in _split(text):
        if inert:
            found.append(part)
            continue
        for piece in re.split(r"(\.\.\.|[{}\[\]()])", part):
            if piece and piece in "{[(":
                inside += piece
            elif piece and piece in "}])":
                inside = inside[:-1]
            if piece == SPREAD and inside[-1:] in {"{", "["}:
                found.append(f"'{SPREAD}': " if inside[-1] == "{" else "!!!")
            else:
                found.append(piece)
    return "".join(found)


def _split(text: str) -> Iterator[tuple[bool, str]]:
    """Yield the pieces of a file, and whether they are text or a comment."""
    at = 0
    for found in _INERT.finditer(text):
        yield False, text[at : found.start()]
        yield True, found[0]
        at = found.end()
    yield False, text[at:]


def resource_type(name: str) -> tuple[str, tuple[str, ...]] | None:
    """Return the type and the way into it that a type taken from a resource names."""
    found = re.fullmatch(r"resource(?:In|Out)put<([^>@]+)@[^>]*>(.*)", name)
    return (found[1], tuple(re.findall(r"\w+|\[\*\]", found[2]))) if found else None
