"""Parses ``$filter`` of lists: the subset of OData that Event Grid supports, on ``name`` only."""

from __future__ import annotations

import re
from collections.abc import Callable

from shared.errors import InvalidDocument

NameTest = Callable[[str], bool]

_TOKEN = re.compile(r"\s*(?:(?P<text>'(?:[^']|'')*')|(?P<word>[A-Za-z]+)|(?P<sign>[(),]))")
_FORM = (
    "Lists can be filtered by name only: name eq 'x', name ne 'x' and contains(name,'x'), combined "
    "with and, or, not and parentheses."
)
_MAX_TOKENS = 200  # also limits the nesting of parentheses


def parse_filter(text: str) -> NameTest:
    """
    Parse a filter such as ``contains(name,'crm') and name ne 'crm-old'``; empty matches all.

    Names are compared case-insensitively.

    Raises:
        InvalidDocument: it is malformed, or filters by something else than the name.
    """
    if not text.strip():
        return lambda _: True
    try:
        return _Parser(_tokens(text)).parse()
    except ValueError as error:
        message = f"The $filter is invalid: {error}. {_FORM}"
        raise InvalidDocument(message, target="$filter") from error


def _tokens(text: str) -> list[str]:
    tokens, end, text = [], 0, text.rstrip()
    while end < len(text):
        found = _TOKEN.match(text, end)
        if found is None:
            raise ValueError(f"unexpected character at position {end}")
        end = found.end()
        tokens.append(found["text"] or (found["word"] or found["sign"]).lower())
    if len(tokens) > _MAX_TOKENS:
        raise ValueError("it is too long")
    return tokens


class _Parser:
    """Recursive descent; ``not`` binds tighter than ``and``, ``and`` tighter than ``or``."""

    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens[::-1]

    def parse(self) -> NameTest:
        test = self._or()
        if self._tokens:
            raise ValueError(f"unexpected {self._tokens[-1]}")
        return test

    def _or(self) -> NameTest:
        tests = [self._and()]
        while self._take("or"):
            tests.append(self._and())
        return lambda name: any(test(name) for test in tests)

    def _and(self) -> NameTest:
        tests = [self._term()]
        while self._take("and"):
            tests.append(self._term())
        return lambda name: all(test(name) for test in tests)

    def _term(self) -> NameTest:
        if self._take("not"):
            inner = self._term()
            return lambda name: not inner(name)
        if self._take("("):
            inner = self._or()
            self._expect(")")
            return inner
        return self._comparison()

    def _comparison(self) -> NameTest:
        if self._take("contains"):
            self._expect("(")
            self._expect("name")
            self._expect(",")
            part = self._text()
            self._expect(")")
            return lambda name: part in name.casefold()
        self._expect("name")
        is_equal = self._take("eq")
        if not is_equal:
            self._expect("ne")
        wanted = self._text()
        return lambda name: (name.casefold() == wanted) is is_equal

    def _take(self, token: str) -> bool:
        if self._tokens and self._tokens[-1] == token:
            self._tokens.pop()
            return True
        return False

    def _expect(self, token: str) -> None:
        if not self._take(token):
            found = f" before {self._tokens[-1]}" if self._tokens else ""
            raise ValueError(f"'{token}' is missing{found}")

    def _text(self) -> str:
        token = self._tokens.pop() if self._tokens else ""
        if not token.startswith("'"):
            raise ValueError("a quoted text is missing")
        return token[1:-1].replace("''", "'").casefold()
