"""Parses ``$filter`` of lists: the subset of OData that Event Grid supports, on ``name`` only."""

from __future__ import annotations

from collections.abc import Callable

from shared.arm.odata import Tokens
from shared.errors import InvalidDocument

NameTest = Callable[[str], bool]

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
        return _Parser(Tokens(text, _MAX_TOKENS)).parse()
    except ValueError as error:
        message = f"The $filter is invalid: {error}. {_FORM}"
        raise InvalidDocument(message, target="$filter") from error


class _Parser:
    """Recursive descent; ``not`` binds tighter than ``and``, ``and`` tighter than ``or``."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens

    def parse(self) -> NameTest:
        test = self._or()
        self._tokens.end()
        return test

    def _or(self) -> NameTest:
        tests = [self._and()]
        while self._tokens.take("or"):
            tests.append(self._and())
        return lambda name: any(test(name) for test in tests)

    def _and(self) -> NameTest:
        tests = [self._term()]
        while self._tokens.take("and"):
            tests.append(self._term())
        return lambda name: all(test(name) for test in tests)

    def _term(self) -> NameTest:
        if self._tokens.take("not"):
            inner = self._term()
            return lambda name: not inner(name)
        if self._tokens.take("("):
            inner = self._or()
            self._tokens.expect(")")
            return inner
        return self._comparison()

    def _comparison(self) -> NameTest:
        if self._tokens.take("contains"):
            self._tokens.expect("(")
            self._tokens.expect("name")
            self._tokens.expect(",")
            part = self._tokens.take_text().casefold()
            self._tokens.expect(")")
            return lambda name: part in name.casefold()
        self._tokens.expect("name")
        is_equal = self._tokens.take("eq")
        if not is_equal:
            self._tokens.expect("ne")
        wanted = self._tokens.take_text().casefold()
        return lambda name: (name.casefold() == wanted) is is_equal
