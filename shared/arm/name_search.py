"""Searching lists by ``$filter``: what Event Grid understands of OData, on ``name`` alone."""

from __future__ import annotations

import re
from collections.abc import Callable

from shared.errors import Fault, InvalidDocument

NameTest = Callable[[str], bool]

_TOKEN = re.compile(r"\s*(?:(?P<text>'(?:[^']|'')*')|(?P<word>[A-Za-z]+)|(?P<sign>[(),]))")
_FORM = (
    "Lists are searched by name alone: name eq 'x', name ne 'x' and contains(name,'x'), combined "
    "by and, or, not and parentheses."
)
_MAX_TOKENS = 200  # also bounds how deep parentheses nest


def parse_filter(text: str) -> NameTest:
    """
    Read a filter such as ``contains(name,'crm') and name ne 'crm-old'``; an empty one takes all.

    Names are compared whatever their case.

    Raises:
        InvalidDocument: it can't be read, or asks for more than names.
    """
    if not text.strip():
        return lambda _: True
    try:
        return _Parser(_tokens(text)).parse()
    except ValueError as error:
        message = f"The $filter is invalid: {error}. {_FORM}"
        fault = Fault(code=InvalidDocument.code, message=message, target="$filter")
        raise InvalidDocument(message, faults=(fault,)) from error


def _tokens(text: str) -> list[str]:
    tokens, end, text = [], 0, text.rstrip()
    while end < len(text):
        found = _TOKEN.match(text, end)
        if found is None:
            raise ValueError(f"it can't be read from position {end}")
        end = found.end()
        tokens.append(found["text"] or (found["word"] or found["sign"]).lower())
    if len(tokens) > _MAX_TOKENS:
        raise ValueError("it is too long")
    return tokens


class _Parser:
    """Recursive descent: ``or`` binds weaker than ``and``, and that weaker than ``not``."""

    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens[::-1]

    def parse(self) -> NameTest:
        test = self._either()
        if self._tokens:
            raise ValueError(f"{self._tokens[-1]} is not expected")
        return test

    def _either(self) -> NameTest:
        tests = [self._all()]
        while self._take("or"):
            tests.append(self._all())
        return lambda name: any(test(name) for test in tests)

    def _all(self) -> NameTest:
        tests = [self._one()]
        while self._take("and"):
            tests.append(self._one())
        return lambda name: all(test(name) for test in tests)

    def _one(self) -> NameTest:
        if self._take("not"):
            inner = self._one()
            return lambda name: not inner(name)
        if self._take("("):
            inner = self._either()
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
            instead = f" where {self._tokens[-1]} is" if self._tokens else ""
            raise ValueError(f"'{token}' is missing{instead}")

    def _text(self) -> str:
        token = self._tokens.pop() if self._tokens else ""
        if not token.startswith("'"):
            raise ValueError("a text in quotes is missing")
        return token[1:-1].replace("''", "'").casefold()
