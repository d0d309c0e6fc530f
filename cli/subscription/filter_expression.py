"""Reads a filter such as ``data.total > 10`` into an advanced filter of Event Grid."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from math import isinf
from typing import Any

HELP = """\
A filter is a key, an operator and a value:

  data.total > 10          also >=, <, <=, = and !=
  data.color = red         also != , in (red, "dark blue") and not in (…)
  data.size in 1..5        a range; several: in (1..5, 10..20); also not in
  data.paid = true
  subject begins with /orders/    also ends with, contains; each also with not before it
  data.note is null        also is not null

A text that looks like something else (10, true, null, > 5, x and data.y = z) needs double quotes.
An event must pass all filters that are given: there is no 'and'.
"""

HINT = "Write it like 'data.total > 10'; 'pushgrid subscription create --help' shows all forms."

_EXPRESSION = re.compile(
    r"\s*(?P<key>[^\s=<>!]+)\s*"
    r"(?P<operator>>=|<=|!=|==|=|>|<|\bnot\s+in\b|\bin\b|\bis\s+not\s+null\b|\bis\s+null\b"
    r"|(?:\bnot\s+)?\b(?:begins\s+with|ends\s+with|contains)\b)\s*(?P<value>.*?)\s*",
    re.IGNORECASE | re.DOTALL,
)
_ITEM = re.compile(r'\s*("(?:[^"\\]|\\.)*"|[^,"]+?)\s*(?:,|\Z)')
_NUMBER = r"[-+]?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?"
_LITERAL = re.compile(r"true|false|null", re.IGNORECASE)
# What begins with a single quote, or goes on with a second filter.
_NO_TEXT = re.compile(
    r"'.*|.*\s(?:and|or)\s+[^\s=<>!]+\s*(?:[=<>!]|(?:in|is|not|begins|ends|contains)\s).*",
    re.IGNORECASE | re.DOTALL,
)
_COMPARED = re.compile(r"[=<>!].*", re.DOTALL)  # after an operator: one with its signs reversed
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_RANGE = re.compile(rf"({_NUMBER})\.\.({_NUMBER})")

_COMPARISONS = {
    ">": "NumberGreaterThan",
    ">=": "NumberGreaterThanOrEquals",
    "<": "NumberLessThan",
    "<=": "NumberLessThanOrEquals",
}
_MATCHES = {"begins with": "BeginsWith", "ends with": "EndsWith", "contains": "Contains"}


def parse_filter_expression(text: str) -> dict[str, Any]:
    """
    Return the ARM form of an advanced filter.

    Raises:
        ValueError: it is no filter; the message says what is wrong.
    """
    found = _EXPRESSION.fullmatch(text)
    if not found:
        raise ValueError(f"'{text}' is not a filter: write a key, an operator and a value")
    operator = " ".join(found["operator"].lower().split())
    value = found["value"]
    if operator in {"is null", "is not null"}:
        if value:
            raise ValueError(f"'{text}': nothing may follow '{operator}'")
        kind = "IsNullOrUndefined" if operator == "is null" else "IsNotNull"
        return {"operatorType": kind, "key": found["key"]}
    if not value:
        raise ValueError(f"'{text}': a value is missing after '{operator}'")
    try:
        return {"key": found["key"]} | _operand(operator, value)
    except ValueError as error:
        hint = "; each condition needs a --filter of its own" if " and " in value.lower() else ""
        raise ValueError(f"'{text}': {error}{hint}") from None


def _operand(operator: str, value: str) -> dict[str, Any]:
    if operator in _COMPARISONS:
        return {"operatorType": _COMPARISONS[operator], "value": _number(value)}
    negated = operator == "!=" or operator.startswith("not ")
    name = operator.removeprefix("not ")
    if name in _MATCHES:
        return _strings(_MATCHES[name], _items(value), negated=negated)
    if name == "in":
        if "," in value and not value.startswith("(") and not _QUOTED.fullmatch(value):
            if "(" in value:
                raise ValueError(f"write {operator} (1, 5) for values, {operator} 1..5 for a range")
            plain = value.strip("[]")
            raise ValueError(f"several values need brackets: write {operator} ({plain})")
        return _in(_items(value), negated=negated)
    if value.lower() in {"true", "false"}:
        # There is no negated form: the other value is meant.
        return {"operatorType": "BoolEquals", "value": (value.lower() == "true") is not negated}
    return _in([value], negated=negated)


def _in(items: list[str], *, negated: bool) -> dict[str, Any]:
    """Return a test for one of several values, all of one type."""
    ranges = [_RANGE.fullmatch(each) for each in items]
    if all(ranges):
        values: list[Any] = [[_number(each[1]), _number(each[2])] for each in ranges if each]
        kind = "InRange"
    elif all(re.fullmatch(_NUMBER, each) for each in items):
        values, kind = [_number(each) for each in items], "In"
    else:
        return _strings("In", items, negated=negated)
    return {"operatorType": f"Number{'Not' if negated else ''}{kind}", "values": values}


def _strings(kind: str, items: list[str], *, negated: bool) -> dict[str, Any]:
    name = f"String{'Not' if negated else ''}{kind}"
    if kind == "In" and (strange := next(filter(_COMPARED.fullmatch, items), "")):
        quoted = json.dumps(strange, ensure_ascii=False)
        instead = f"'{strange[0]}=' to compare numbers, or " if strange[0] in "<>" else ""
        raise ValueError(f"write {instead}{quoted} if the text is meant")
    unquoted = [_NO_TEXT] if kind in _MATCHES.values() else [_NO_TEXT, _LITERAL]
    for item in items:
        if not item.startswith('"') and any(each.fullmatch(item) for each in unquoted):
            raise ValueError(f"write {json.dumps(item, ensure_ascii=False)} if the text is meant")
    return {"operatorType": name, "values": [_text(each) for each in items]}


def _items(value: str) -> list[str]:
    """Divide ``(a, "b, c")``; without brackets it is one value."""
    if not value.startswith("("):
        return [value]
    if not value.endswith(")"):
        raise ValueError("the closing bracket is missing")
    inner = value[1:-1]
    items, at = [], 0
    while at < len(inner):
        found = _ITEM.match(inner, at)
        if not found:
            raise ValueError(f"'{inner[at:].strip()}' is not a list of values")
        items.append(found[1])
        at = found.end()
    if not items:
        raise ValueError("the list is empty")
    return items


def _text(item: str) -> str:
    if not item.startswith('"'):
        return item
    try:
        return str(json.loads(item))
    except ValueError:
        raise ValueError(f"{item} is not a quoted text") from None


def _number(text: str) -> float | int:
    if not re.fullmatch(_NUMBER, text):
        raise ValueError(f"'{text}' is not a number")
    as_read: Callable[[str], float | int] = int if re.fullmatch(r"[-+]?[0-9]+", text) else float
    number = as_read(text)
    if isinf(number):
        raise ValueError(f"'{text}' is too large a number")
    return number
