"""Reads ``$filter`` of lists: OData as tokens, and Event Grid's subset on ``name``."""

from __future__ import annotations

import re
from collections.abc import Callable

from shared.errors import InvalidDocument

_TOKEN = re.compile(r"\s*+(?:(?P<text>'(?:[^']|'')*+')|(?P<word>[A-Za-z_]\w*+)|(?P<sign>[(),]))")
NameTest = Callable[[str], bool]
_FORM = (
    "Lists can be filtered by name only: name eq 'x', name ne 'x' and contains(name,'x'), combined "
    "with and, or, not and parentheses."
)
_MAX_TOKENS = 200  # also limits the nesting of parentheses


class Tokens:
    """
    The tokens of a filter, taken one after the other; words are compared in lower case.

    Each method raises ``ValueError`` if the next token is not what it takes.
    """

    def __init__(self, text: str, most: int) -> None:
        """Split *text*, which may have *most* tokens."""
        tokens: list[str] = []
        end, text = 0, text.rstrip()
        while end < len(text):
            found = _TOKEN.match(text, end)
            if found is None:
                raise ValueError(f"unexpected character at position {end}")
            if len(tokens) == most:
                raise ValueError("it is too long")
            end = found.end()
            tokens.append(found["text"] or (found["word"] or found["sign"]).lower())
        self._tokens = tokens[::-1]

    def take(self, token: str) -> bool:
        """Take *token* if it is the next one; tell whether it is."""
        if self._tokens and self._tokens[-1] == token:
            self._tokens.pop()
            return True
        return False

    def expect(self, *tokens: str) -> None:
        for token in tokens:
            if not self.take(token):
                found = f" before {self._tokens[-1]}" if self._tokens else ""
                raise ValueError(f"'{token}' is missing{found}")

    def take_word(self) -> str:
        if not self._tokens or not self._tokens[-1].isidentifier():
            raise ValueError("a name is missing")
        return self._tokens.pop()

    def take_text(self) -> str:
        """Take a quoted text; return it without its quotes."""
        token = self._tokens.pop() if self._tokens else ""
        if not token.startswith("'"):
            raise ValueError("a quoted text is missing")
        return token[1:-1].replace("''", "'")

    def end(self) -> None:
        if self._tokens:
            raise ValueError(f"unexpected {self._tokens[-1]}")


def parse_name_filter(text: str) -> NameTest:
    """
    Parse a filter such as ``contains(name,'crm') and name ne 'crm-old'``; empty matches all.

    Names are compared case-insensitively; ``not`` binds tighter than ``and``, ``and`` than ``or``.

    Raises:
        InvalidDocument: it is malformed, or filters by something else than the name.
    """
    if not text.strip():
        return lambda _: True
    try:
        tokens = Tokens(text, _MAX_TOKENS)
        test = _alternatives(tokens)
        tokens.end()
    except ValueError as error:
        message = f"The $filter is invalid: {error}. {_FORM}"
        raise InvalidDocument(message, target="$filter") from error
    return test


def _alternatives(tokens: Tokens) -> NameTest:
    tests = [_conjunction(tokens)]
    while tokens.take("or"):
        tests.append(_conjunction(tokens))
    return lambda name: any(test(name) for test in tests)


def _conjunction(tokens: Tokens) -> NameTest:
    tests = [_term(tokens)]
    while tokens.take("and"):
        tests.append(_term(tokens))
    return lambda name: all(test(name) for test in tests)


def _term(tokens: Tokens) -> NameTest:
    if tokens.take("not"):
        inner = _term(tokens)
        return lambda name: not inner(name)
    if tokens.take("("):
        inner = _alternatives(tokens)
        tokens.expect(")")
        return inner
    if tokens.take("contains"):
        tokens.expect("(", "name", ",")
        part = tokens.take_text().casefold()
        tokens.expect(")")
        return lambda name: part in name.casefold()
    tokens.expect("name")
    is_equal = tokens.take("eq")
    if not is_equal:
        tokens.expect("ne")
    wanted = tokens.take_text().casefold()
    return lambda name: (name.casefold() == wanted) is is_equal
