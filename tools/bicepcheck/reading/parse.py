"""
Parses the Bicep that our templates use into a syntax tree.

The first thing that is not Bicep, or that no template here uses (functions of its own, spreads,
nullable and tuple types), ends it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeVar

from tools.bicepcheck.reading import nodes as s

_PRECEDENCE = (
    ("??",), ("||",), ("&&",), ("==", "!=", "=~", "!~"), ("<=", ">=", "<", ">"), ("+", "-"),
    ("*", "/", "%"),
)  # fmt: skip
"""Binary operators, those that bind most loosely first."""

_SPACE = re.compile(r"(?:[ \t\r]|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_DIRECTIVE = r"#(?:disable-next-line|disable-diagnostics|restore-diagnostics)(?: [\w-]+)+[ \t\r]*$"
_LINES = re.compile(rf"(?:\s|//[^\n]*|/\*.*?\*/|{_DIRECTIVE})*", re.DOTALL | re.MULTILINE)
_WORD = re.compile(r"[A-Za-z_]\w*")
_NUMBER = re.compile(r"\d+")
_TEXT = re.compile(r"(?:[^'\\$\n]|\\(?:[nrt'\\$]|u\{[0-9a-fA-F]+\})|\$(?!\{))*")
_ESCAPE = re.compile(r"\\(?:u\{([0-9a-fA-F]+)\}|(.))")
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}
_LAMBDA = re.compile(r"(?:(\w+)|\(([\w\s,]*)\))\s*=>")
_CONSTANTS = {"true": True, "false": False, "null": None}

One = TypeVar("One")


class Unreadable(Exception):
    """The file is not Bicep: *line* and message."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line, self.message = line, message


@lru_cache(maxsize=100)  # the corpus reads the same few files again and again
def parse(text: str) -> tuple[s.Node, ...]:
    """
    Return the declarations of a file.

    Raises:
        Unreadable: at the first place that is not Bicep.
    """
    return _Parser(text).file()


class _Parser:
    """Reads *text* from *at* on."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    # --- characters and words

    @property
    def line(self) -> int:
        """The line of the next character that is not space."""
        return self.text.count("\n", 0, self.at) + 1

    def fault(self, wanted: str) -> Unreadable:
        rest = self.text[self.at : self.at + 30].partition("\n")[0] or "the end of the line"
        return Unreadable(self.line, f"expected {wanted}, found {rest!r}")

    def space(self, *, lines: bool = False) -> None:
        found = (_LINES if lines else _SPACE).match(self.text, self.at)
        self.at = found.end() if found else self.at

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        if found := pattern.match(self.text, self.at):
            self.at = found.end()
        return found

    def sees(self, *texts: str) -> str | None:
        """Return which of *texts* comes next; a word must end there."""
        self.space()
        for text in texts:
            end = self.at + len(text)
            if self.text.startswith(text, self.at) and not (
                text[-1].isalpha() and re.match(r"\w", self.text[end : end + 1])
            ):
                return text
        return None

    def takes(self, *texts: str) -> str | None:
        if found := self.sees(*texts):
            self.at += len(found)
        return found

    def needs(self, text: str) -> None:
        if not self.takes(text):
            raise self.fault(f"'{text}'")

    def word(self) -> str:
        self.space()
        if found := self.match(_WORD):
            return found[0]
        raise self.fault("a name")

    def items(self, end: str, read: Callable[[], One], *, lines: bool = True) -> tuple[One, ...]:
        """Read what a comma or, with *lines*, a new line separates, up to *end*."""
        found: list[One] = []
        while True:
            self.space(lines=True)
            if self.takes(end):
                return tuple(found)
            found.append(read())
            start = self.at
            self.space(lines=True)
            apart = lines and "\n" in self.text[start : self.at]
            if not self.takes(",") and not apart and not self.sees(end):
                raise self.fault("a comma or a new line" if lines else f"a comma or '{end}'")

    # --- declarations

    def file(self) -> tuple[s.Node, ...]:
        found: list[s.Node] = []
        while True:
            self.space(lines=True)
            if self.at == len(self.text):
                return tuple(found)
            found.append(self.declaration())
            self.space()
            if self.at < len(self.text) and self.text[self.at] != "\n":
                raise self.fault("a new line")

    def decorators(self) -> tuple[s.Invocation, ...]:
        found = []
        while self.takes("@"):
            call = self.expression()
            if not isinstance(call, s.Invocation):
                raise self.fault("a decorator")
            found.append(call)
            self.space(lines=True)
        return tuple(found)

    def declaration(self) -> s.Node:
        decorators, line = self.decorators(), self.line
        keyword = self.word()
        if keyword == "targetScope":
            self.needs("=")
            return s.TargetScope(line=line, value=self.expression())
        if keyword == "import":
            return self.imported(line)
        common: Any = {"line": line, "decorators": decorators, "name": self.word()}
        match keyword:
            case "param":
                kind = self.type()
                return s.Param(
                    type=kind, default=self.value() if self.sees("=") else None, **common
                )
            case "var":
                typed = None if self.sees("=") else self.type()
                return s.Var(type=typed, value=self.value(), **common)
            case "output":
                return s.Output(type=self.type(), value=self.value(), **common)
            case "type":
                self.needs("=")
                return s.TypeAlias(type=self.type(), **common)
            case "metadata":
                return s.Metadata(value=self.value(), **common)
            case "resource":
                return self.resource(common)
            case "module":
                return s.Module(path=self.path(), value=self.value(), **common)
        raise Unreadable(line, f"'{keyword}' begins no declaration")

    def resource(self, common: dict[str, Any]) -> s.ResourceDeclaration:
        kind, existing = self.path(), bool(self.takes("existing"))
        return s.ResourceDeclaration(type=kind, existing=existing, value=self.value(), **common)

    def value(self) -> s.Node:
        self.needs("=")
        self.space(lines=True)
        return self.expression()

    def path(self) -> str:
        self.space()
        found = self.string() if self.sees("'") else None
        if not isinstance(found, s.Literal) or not isinstance(found.value, str):
            raise self.fault("a string")
        return found.value

    def imported(self, line: int) -> s.Import:
        names: tuple[tuple[str, str], ...] = ()
        wildcard = None
        if self.takes("*"):
            self.needs("as")
            wildcard = self.word()
        else:
            self.needs("{")
            names = self.items("}", self.renamed)
        self.needs("from")
        return s.Import(line=line, path=self.path(), names=names, wildcard=wildcard)

    def renamed(self) -> tuple[str, str]:
        name = self.word()
        return name, self.word() if self.takes("as") else name

    # --- types

    def type(self) -> s.Node:
        self.space()
        line = self.line
        self.takes("|")
        of = [self.one_type()]
        while True:
            start = self.at
            self.space(lines=True)
            if not self.takes("|"):
                self.at = start
                return s.UnionType(line=line, of=tuple(of)) if len(of) > 1 else of[0]
            self.space(lines=True)
            of.append(self.one_type())

    def one_type(self) -> s.Node:
        self.space()
        line = self.line
        of: s.Node
        if self.takes("{"):
            of = s.Object(line=line, properties=self.items("}", self.type_member))
        else:
            of = self.primary()
        while True:
            if self.takes("[]"):
                of = s.ArrayType(line=line, of=of)
            elif self.takes("."):
                of = s.Member(line=line, of=of, name=self.word())
            else:
                return of

    def type_member(self) -> s.Property:
        decorators, line = self.decorators(), self.line
        key = self.takes("*") or self.key()
        self.needs(":")
        return s.Property(line=line, key=key, value=self.type(), decorators=decorators)

    # --- expressions

    def expression(self) -> s.Node:
        self.space()
        if found := self.match(_LAMBDA):
            names = tuple(re.findall(r"\w+", found[1] or found[2]))
            line = self.line
            self.space(lines=True)
            return s.Lambda(line=line, params=names, body=self.expression())
        line, test = self.line, self.binary(0)
        start = self.at
        self.space(lines=True)
        if self.sees("??", "?.") or not self.takes("?"):
            self.at = start
            return test
        self.space(lines=True)
        yes = self.expression()
        self.space(lines=True)
        self.needs(":")
        self.space(lines=True)
        return s.Ternary(line=line, test=test, yes=yes, no=self.expression())

    def binary(self, level: int) -> s.Node:
        if level == len(_PRECEDENCE):
            return self.unary()
        line, left = self.line, self.binary(level + 1)
        while True:
            if not (op := self.takes(*_PRECEDENCE[level])):
                return left
            self.space(lines=True)
            left = s.Binary(line=line, op=op, left=left, right=self.binary(level + 1))

    def unary(self) -> s.Node:
        self.space()
        line = self.line
        if op := self.takes("!", "-"):
            of = self.unary()
            if op == "-" and isinstance(of, s.Literal) and isinstance(of.value, int):
                return s.Literal(line=line, value=-of.value)
            return s.Unary(line=line, op=op, of=of)
        return self.postfix(self.primary())

    def postfix(self, of: s.Node) -> s.Node:
        while True:
            line = self.line
            if self.takes("::"):
                of = s.NestedAccess(line=line, of=of, name=self.word())
            elif self.takes(".?"):
                of = s.Member(line=line, of=of, name=self.word(), safe=True)
            elif self.takes("."):
                name = self.word()
                of = s.Member(line=line, of=of, name=name)
                if self.takes("("):
                    of = s.Invocation(line=line, name=name, of=of.of, args=self.arguments())
            elif mark := self.takes("[?", "["):
                self.space(lines=True)
                at = self.expression()
                self.space(lines=True)
                self.needs("]")
                of = s.Index(line=line, of=of, at=at, safe=mark == "[?")
            else:
                return of

    def arguments(self) -> tuple[s.Node, ...]:
        return self.items(")", self.expression, lines=False)

    def primary(self) -> s.Node:
        self.space()
        line = self.line
        if self.sees("'"):
            return self.string()
        if found := self.match(_NUMBER):
            return s.Literal(line=line, value=int(found[0]))
        if self.takes("("):
            self.space(lines=True)
            inner = self.expression()
            self.space(lines=True)
            self.needs(")")
            return inner
        if self.takes("["):
            self.space(lines=True)
            return self.loop(line) if self.takes("for") else self.array(line)
        if self.takes("{"):
            members = self.items("}", self.member)
            inside = tuple(one for one in members if isinstance(one, s.ResourceDeclaration))
            properties = tuple(one for one in members if isinstance(one, s.Property))
            return s.Object(line=line, properties=properties, resources=inside)
        name = self.word()
        if name in _CONSTANTS:
            return s.Literal(line=line, value=_CONSTANTS[name])
        if name == "if" and self.takes("("):
            test = self.expression()
            self.needs(")")
            return s.If(line=line, test=test, body=self.primary())
        if self.takes("("):
            return s.Invocation(line=line, name=name, of=None, args=self.arguments())
        return s.Name(line=line, name=name)

    def array(self, line: int) -> s.Array:
        return s.Array(line=line, items=self.items("]", self.expression))

    def loop(self, line: int) -> s.For:
        index = None
        if self.takes("("):
            item = self.word()
            self.needs(",")
            index = self.word()
            self.needs(")")
        else:
            item = self.word()
        self.needs("in")
        source = self.expression()
        self.needs(":")
        self.space(lines=True)
        body = self.expression()
        self.space(lines=True)
        self.needs("]")
        return s.For(line=line, item=item, index=index, source=source, body=body)

    def member(self) -> s.Property | s.ResourceDeclaration:
        decorators, line = self.decorators(), self.line
        key = self.key()
        if key == "resource" and not self.sees(":"):
            return self.resource({"line": line, "decorators": decorators, "name": self.word()})
        self.needs(":")
        self.space(lines=True)
        return s.Property(line=line, key=key, value=self.expression(), decorators=decorators)

    def key(self) -> str | s.Interpolation:
        if not self.sees("'"):
            return self.word()
        found = self.string()
        return found if isinstance(found, s.Interpolation) else str(found.value)

    def string(self) -> s.Literal | s.Interpolation:
        line = self.line
        if self.takes("'''"):
            text, end, rest = self.text[self.at :].partition("'''")
            if not end:
                raise self.fault("'''")
            self.at = len(self.text) - len(rest)
            return s.Literal(line=line, value=text.removeprefix("\r").removeprefix("\n"))
        self.needs("'")
        parts: list[str | s.Node] = []
        while True:
            if (found := self.match(_TEXT)) and found[0]:
                parts.append(_ESCAPE.sub(_unescaped, found[0]))
            if self.text.startswith("'", self.at):
                self.at += 1
                break
            if not self.text.startswith("${", self.at):
                raise self.fault("the end of the string, or one of its escapes")
            self.at += 2
            parts.append(self.expression())
            self.needs("}")
        if any(isinstance(part, s.Node) for part in parts):
            return s.Interpolation(line=line, parts=tuple(parts))
        return s.Literal(line=line, value="".join(map(str, parts)))


def _unescaped(found: re.Match[str]) -> str:
    return chr(int(found[1], 16)) if found[1] else _ESCAPES.get(found[2], found[2])
