"""Reads a ``$filter`` of OData as a sequence of tokens, in linear time."""

from __future__ import annotations

import re

_TOKEN = re.compile(r"\s*+(?:(?P<text>'(?:[^']|'')*+')|(?P<word>[A-Za-z_]\w*+)|(?P<sign>[(),]))")


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
        """Take the next token if it is this one."""
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
