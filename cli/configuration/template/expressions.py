"""
Parses the expressions of ARM templates.

Source: "Syntax and expressions in ARM templates" (2025).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from lark import Lark, Token, Transformer, UnexpectedInput, v_args

from shared.clip import clip

_GRAMMAR = r"""
?expression: STRING                                   -> text
           | INTEGER                                  -> number
           | name "(" [expression ("," expression)*] ")" -> call
           | expression "." NAME                      -> member
           | expression "[" expression "]"            -> index
name: NAME ("." NAME)*
STRING: /'(''|[^'])*'/
INTEGER: /[+-]?[0-9]{1,19}/
NAME: /[A-Za-z_][A-Za-z0-9_]*/
%import common.WS
%ignore WS
"""


_MAX_LENGTH = 24_576  # characters, as in Azure


class ExpressionFault(ValueError):
    """An expression can't be parsed or evaluated."""

    def __init__(self, message: str) -> None:
        super().__init__(clip(message))


@dataclass(frozen=True, slots=True)
class Constant:
    """A text or a number."""

    value: Any


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A call of a function."""

    name: str  # as it is written; its case does not count
    arguments: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class MemberAccess:
    """A member of an object, or an element of an array."""

    of: Expression
    key: Expression


Expression = Constant | FunctionCall | MemberAccess


def is_expression(text: str) -> bool:
    """Tell whether a text of a template is an expression; ``[[`` stands for a bracket."""
    return text.startswith("[") and text.endswith("]") and not text.startswith("[[")


@cache
def parse(text: str) -> Expression:
    """
    Parse an expression, without its brackets.

    Raises:
        ExpressionFault: it is malformed, or too long.
    """
    if len(text) > _MAX_LENGTH:
        raise ExpressionFault(f"this is longer than {_MAX_LENGTH:,} characters")
    try:
        return _parser().parse(text)  # type: ignore[return-value]
    except UnexpectedInput as error:
        where = f"malformed at character {error.column}"
        raise ExpressionFault(f"the expression {text} is {where}") from None


@v_args(inline=True)
class _Builder(Transformer[Token, Expression]):
    def text(self, token: Token) -> Constant:
        return Constant(token[1:-1].replace("''", "'"))

    def number(self, token: Token) -> Constant:
        return Constant(int(token))

    def name(self, *parts: Token) -> str:
        return ".".join(parts)

    def call(self, name: str, *arguments: Expression | None) -> FunctionCall:
        return FunctionCall(name, tuple(each for each in arguments if each is not None))

    def member(self, of: Expression, name: Token) -> MemberAccess:
        return MemberAccess(of, Constant(str(name)))

    def index(self, of: Expression, key: Expression) -> MemberAccess:
        return MemberAccess(of, key)


@cache
def _parser() -> Lark:
    return Lark(_GRAMMAR, start="expression", parser="lalr", transformer=_Builder())
