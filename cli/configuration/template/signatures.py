"""Describes functions of ARM templates: their arguments are checked before a function is called."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from cli.configuration.source import BeyondLimits
from cli.configuration.template.expressions import ExpressionFault
from cli.configuration.template.values import LambdaFunction, kind_of, named

_MANY = 1_000_000
_WORD = range(-(2**63), 2**63)
_SIGNATURE = re.compile(r"(\w+)\((.*)\)")
_PARAMETER = re.compile(r"([a-z|]+)(?:/(\d)(?:-(\d))?)?(\?|\.\.\.)?")
_GROUPS = {
    "any": ("text", "int", "float", "bool", "array", "object", "null"),
    "number": ("int", "float"),
}


class Gets(Enum):
    """What a function gets before its arguments."""

    VALUES = "nothing"
    GROUP = "the resource group"
    SCOPE = "the scope of the expression"
    EXPRESSIONS = "the scope, and its arguments before they are evaluated"


@dataclass(frozen=True, slots=True)
class Parameter:
    """What an argument may be."""

    kinds: tuple[str, ...]
    variables: range = range(0)  # how many a lambda may have

    def fault(self, value: Any) -> str | None:
        """Return what is wrong with an argument, if anything is."""
        if kind_of(value) not in self.kinds:
            return f"must be {named(*self.kinds)}, not {named(kind_of(value))}"
        if isinstance(value, LambdaFunction) and len(value.variables) not in self.variables:
            count = len(value.variables)
            noun = "variable" if self.variables[-1] == 1 else "variables"
            return f"must be a lambda of {_numbers(self.variables)} {noun}, not {count}"
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateFunction:
    """
    A function.

    Its signature names the kinds of its arguments, such as ``padLeft(text|int, int, text?)``.
    ``?`` ends one that may be missing, ``...`` one that is there any number of times, and ``/1-2``
    says how many variables a lambda has.
    """

    name: str  # in its documented case
    parameters: tuple[Parameter, ...]
    arity: range  # how many arguments it takes
    call: Callable[..., Any]
    gets: Gets

    def check_arity(self, count: int) -> None:
        """
        Return if it takes *count* arguments.

        Raises:
            ExpressionFault: it does not.
        """
        if count not in self.arity:
            noun = "argument" if self.arity[0] == self.arity[-1] == 1 else "arguments"
            raise ExpressionFault(f"{self.name}() takes {_numbers(self.arity)} {noun}, not {count}")

    def check(self, value: Any, position: int) -> Any:
        """
        Return an argument, *position* counted from 0.

        Raises:
            ExpressionFault: it is of the wrong kind.
        """
        known = self.parameters[min(position, len(self.parameters) - 1)]
        if fault := known.fault(value):
            raise ExpressionFault(f"{self.name}(): argument {position + 1} {fault}")
        return value

    def __call__(self, context: Sequence[Any], values: Sequence[Any]) -> Any:
        """
        Return its value.

        Raises:
            ExpressionFault: the arguments don't fit.
        """
        for position, value in enumerate(values):
            self.check(value, position)
        try:
            found = self.call(*context, *values)
        except ExpressionFault:
            raise
        except BeyondLimits as beyond:
            raise ExpressionFault(f"{self.name}(): {beyond}") from None
        except RecursionError:
            raise ExpressionFault(f"{self.name}(): the value is nested too deeply") from None
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
            raise ExpressionFault(f"{self.name}(): its arguments do not fit") from None
        if isinstance(found, int) and found not in _WORD:
            raise ExpressionFault(f"{self.name}(): the number is beyond 64 bits")
        return found


def functions(
    signatures: Mapping[str, Callable[..., Any]], gets: Gets = Gets.VALUES
) -> Iterable[TemplateFunction]:
    """Return the functions of a table of signatures."""
    return [_function(signature, call, gets) for signature, call in signatures.items()]


def _function(signature: str, call: Callable[..., Any], gets: Gets) -> TemplateFunction:
    name, listed = _SIGNATURE.fullmatch(signature).groups()  # type: ignore[union-attr]
    parameters, least, most = [], 0, 0
    for each in filter(None, listed.split(", ")):
        kinds, low, high, times = _PARAMETER.fullmatch(each).groups()  # type: ignore[union-attr]
        variables = range(int(low), int(high or low) + 1) if low else range(0)
        every = [one for kind in kinds.split("|") for one in _GROUPS.get(kind, (kind,))]
        parameters.append(Parameter(tuple(every), variables))
        least += times is None
        most += _MANY if times == "..." else 1
    return TemplateFunction(
        name=name,
        parameters=tuple(parameters),
        arity=range(least, most + 1),
        call=call,
        gets=gets,
    )


def _numbers(counts: range) -> str:
    least, most = counts[0], counts[-1]
    if least == most:
        return str(least)
    return f"at least {least}" if most >= _MANY else f"{least} to {most}"
