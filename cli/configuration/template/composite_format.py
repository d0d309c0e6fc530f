"""
Fills the places of a text, such as ``{0,10:N2}``, as .NET does in its invariant culture.

Source: "Composite formatting", "Standard numeric format strings", "Custom numeric format strings"
(.NET documentation, 2025); held against Bicep's own evaluator.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

from cli.configuration.source import check_size
from cli.configuration.template.expressions import ExpressionFault
from cli.configuration.template.values import float_text, text_of

_PLACE = re.compile(r"\{\{|\}\}|\{([0-9]{1,7}) *(?:, *(-?[0-9]{1,7}) *)?(?::([^{}]*))?\}|[{}]")
_STANDARD = re.compile(r"([A-Za-z])([0-9]{0,2})")
# Quoted characters are not available.
_PICTURE = re.compile(r"([^#0.,%;\\'\"]*)([#0,]*)(?:\.([#0]*))?(%?)([^#0.,%;\\'\"]*)")
_WORD = 64  # bits
_LEAST_POWER = -4  # of ten: what is smaller is written with an exponent
_EXACT = Context(prec=400, rounding=ROUND_HALF_UP)


def formatted(text: str, *values: Any) -> str:
    """
    Return *text* with its places filled.

    Raises:
        ExpressionFault: a place is malformed, or nothing belongs there.
        BeyondLimits: there is too much in them.
    """
    size = len(text)

    def filled(match: re.Match[str]) -> str:
        nonlocal size
        if match[1] is None:
            if len(match[0]) == 1:
                raise ExpressionFault(f"format(): at {match.start()} is no place such as {{0}}")
            return match[0][0]
        if int(match[1]) >= len(values):
            raise ExpressionFault(f"format(): there is no argument for {{{match[1]}}}")
        width = int(match[2] or 0)
        check_size(size + abs(width))
        shown = _shown(values[int(match[1])], match[3] or "")
        shown = shown.ljust(-width) if width < 0 else shown.rjust(width)
        size += len(shown)
        check_size(size)
        return shown

    return _PLACE.sub(filled, text)


def _shown(value: Any, form: str) -> str:
    if value is None:
        return ""
    if isinstance(value, list | Mapping):
        return text_of(value).replace('"', "'")
    if isinstance(value, str | bool):
        return text_of(value)
    if match := _STANDARD.fullmatch(form):
        kind, precision = match[1].upper(), int(match[2]) if match[2] else None
        make = _FORMS.get(kind)
        if make and not (isinstance(value, float) and kind in _WHOLE):
            return make(value, precision, match[1])
    elif not form:
        return _general(value, None, "G")
    else:
        return _pictured(value, form)
    raise ExpressionFault(f"format(): the form {form} is not available here")


def _fixed(value: float | Decimal, digits: int, comma: str = "") -> str:
    """Return a number with so many digits after the point; halves of fractions are binary ones."""
    exact = Decimal(value).quantize(Decimal(1).scaleb(-digits), context=_exact(digits))
    return f"{exact:{comma}f}"


def _exact(digits: int) -> Context:
    return Context(prec=400 + digits, rounding="ROUND_HALF_EVEN")


def _with_digits(value: int, precision: int | None, _: str) -> str:
    return ("-" if value < 0 else "") + str(abs(value)).rjust(precision or 0, "0")


def _exponential(value: float, precision: int | None, letter: str) -> str:
    digits, power = _scientific(value, 6 if precision is None else precision)
    return f"{digits}{letter}{power:+04}"


def _scientific(value: float, digits: int) -> tuple[str, int]:
    mantissa, _, power = format(Decimal(value), f".{digits}e").partition("e")
    return mantissa, int(power) if value else 0


def _general(value: float, precision: int | None, letter: str) -> str:
    if not precision:
        text = str(value) if isinstance(value, int) else float_text(value).removesuffix(".0")
        return text if letter.isupper() else text.lower()
    mantissa, power = _scientific(value, precision - 1)
    if _LEAST_POWER <= power < precision:
        text = _fixed(value, max(precision - 1 - power, 0))
        return text.rstrip("0").rstrip(".") if "." in text else text
    mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
    return f"{mantissa}{'E' if letter.isupper() else 'e'}{power:+03}"


def _bits(value: int, precision: int | None, letter: str) -> str:
    form = "b" if letter == "B" else letter
    return format(value % 2**_WORD, form).rjust(precision or 0, "0")


def _currency(value: float, precision: int | None, _: str) -> str:
    text = f"¤{_fixed(abs(value), _two(precision), ',')}"
    return f"({text})" if Decimal(value).is_signed() else text


def _two(precision: int | None) -> int:
    return 2 if precision is None else precision


_WHOLE = {"B", "D", "X"}
_FORMS: Mapping[str, Callable[[Any, int | None, str], str]] = {
    "B": _bits,
    "C": _currency,
    "D": _with_digits,
    "E": _exponential,
    "F": lambda value, precision, _: _fixed(value, _two(precision)),
    "G": _general,
    "N": lambda value, precision, _: _fixed(value, _two(precision), ","),
    "P": lambda value, precision, _: (
        f"{_fixed(Decimal(value).scaleb(2, _exact(0)), _two(precision), ',')} %"
    ),
    "R": lambda value, _, letter: _general(value, None, letter),
    "X": _bits,
}


def _pictured(value: float, form: str) -> str:
    """Return a number as a form such as ``#,##0.00`` shows it; another one follows after ``;``."""
    positive, _, negative = form.partition(";")
    match = _PICTURE.fullmatch(negative if value < 0 and negative else positive)
    if match is None or ";" in negative or not (match[2] or match[3]):
        raise ExpressionFault(f"format(): the form {form} is not available here")
    before, whole, fraction, percent, after = match.groups("")
    comma = "," if "," in whole.strip(",") else ""
    shown = f"{value:.15g}" if isinstance(value, float) else value  # all that .NET shows here
    exact = Decimal(shown).scaleb(2 if percent else 0, _EXACT)
    rounded = abs(exact).quantize(Decimal(1).scaleb(-len(fraction)), context=_EXACT)
    digits, _, rest = f"{rounded:f}".partition(".")
    least = len(whole.replace(",", "").lstrip("#"))
    digits = digits.lstrip("0").rjust(least, "0")
    if comma and digits:
        digits = f"{int(digits):,}".rjust(len(digits), "0") if digits[0] != "0" else digits
    kept = len(fraction.rstrip("#"))
    rest = rest[:kept] + rest[kept:].rstrip("0")
    sign = "-" if exact.is_signed() and not negative and (digits or rest) else ""
    return f"{before}{sign}{digits}{'.' if rest else ''}{rest}{percent}{after}"
