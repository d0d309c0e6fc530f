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
    """The tokens of a filter, taken one after the other; words are compared in lower case."""

    def __init__(self, text: str, most: int) -> None:
        """
        Split *text*, which may have *most* tokens.

        Raises:
            ValueError: it has more, or a character that begins none.
        """
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
        if self._tokens and self._tokens[-1] == token:
            self._tokens.pop()
            return True
        return False

    def expect(self, token: str) -> None:
        """
        Take the next token.

        Raises:
            ValueError: it is another one.
        """
        if not self.take(token):
            found = f" before {self._tokens[-1]}" if self._tokens else ""
            raise ValueError(f"'{token}' is missing{found}")

    def take_word(self) -> str:
        """
        Take a word, in lower case.

        Raises:
            ValueError: the next token is none.
        """
        if not self._tokens or not self._tokens[-1].isidentifier():
            raise ValueError("a name is missing")
        return self._tokens.pop()

    def take_text(self) -> str:
        """
        Take a quoted text, without its quotes.

        Raises:
            ValueError: the next token is none.
        """
        token = self._tokens.pop() if self._tokens else ""
        if not token.startswith("'"):
            raise ValueError("a quoted text is missing")
        return token[1:-1].replace("''", "'")

    def end(self) -> None:
        """
        Check that all tokens are taken.

        Raises:
            ValueError: there are more.
        """
        if self._tokens:
            raise ValueError(f"unexpected {self._tokens[-1]}")


def parse_name_filter(text: str) -> NameTest:
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
