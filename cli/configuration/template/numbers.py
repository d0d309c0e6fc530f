"""Defines the functions for numbers, comparisons and conditions, and for ranges of addresses."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from ipaddress import IPv4Network, IPv6Network, ip_network
from operator import add, ge, gt, le, lt, mul, sub
from typing import Any, NoReturn

from cli.configuration.template.expressions import ExpressionFault
from cli.configuration.template.values import identity, kind_of, named

_ENDS = 2  # of a range
_WHOLE = re.compile(r"\s*[+-]?[0-9]{1,19}\s*")


def _int(value: int | str) -> int:
    if isinstance(value, str) and not _WHOLE.fullmatch(value):
        raise ExpressionFault("int(): the text is not a whole number")
    return int(value)


def _bool(value: Any) -> bool:
    if isinstance(value, str):
        if value.strip().lower() not in {"true", "false"}:
            raise ExpressionFault("bool(): the text is neither true nor false")
        return value.strip().lower() == "true"
    return bool(value)


def _divided(name: str, one: int, other: int) -> tuple[int, int]:
    """Return quotient and rest as in .NET: the quotient is rounded towards zero."""
    if other == 0:
        raise ExpressionFault(f"{name}(): argument 2 must not be 0")
    quotient = abs(one) // abs(other) * (1 if (one < 0) == (other < 0) else -1)
    return quotient, one - quotient * other


def _fail(message: str) -> NoReturn:
    raise ExpressionFault(message)


def _comparison(name: str, compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    """Return the comparison of two numbers, or of two texts, whose case counts."""

    def compared(one: Any, other: Any) -> bool:
        if isinstance(one, str) != isinstance(other, str):
            kinds = f"{named(kind_of(one))} and {named(kind_of(other))}"
            raise ExpressionFault(f"{name}(): {kinds} can't be compared")
        return compare(one, other)

    return compared


def _extreme(name: str, choose: Callable[[Any], Any]) -> Callable[..., Any]:
    def chosen(*values: Any) -> Any:
        numbers = values[0] if isinstance(values[0], list) and len(values) == 1 else values
        if not numbers:
            raise ExpressionFault(f"{name}(): the array must not be empty")
        if wrong := [each for each in numbers if kind_of(each) not in {"int", "float"}]:
            raise ExpressionFault(f"{name}(): {named(kind_of(wrong[0]))} is not a number")
        return choose(numbers)

    return chosen


_Network = IPv4Network | IPv6Network


def _network(name: str, text: str) -> _Network:
    try:
        return ip_network(text, strict=False)
    except ValueError:
        raise ExpressionFault(f"{name}(): argument 1 must be a range such as 10.0.0.0/24") from None


def _parse_cidr(text: str) -> dict[str, Any]:
    found = _network("parseCidr", text)
    # All addresses can be used, but for those of the range itself in the older version.
    is_whole = isinstance(found, IPv6Network) or found.num_addresses <= _ENDS
    own, last = found.network_address, found.broadcast_address
    answer = {"network": str(own), "netmask": str(found.netmask)}
    if isinstance(found, IPv4Network):
        answer["broadcast"] = str(last)
    return {
        **answer,
        "firstUsable": str(own if is_whole else own + 1),
        "lastUsable": str(last if is_whole else last - 1),
        "cidr": found.prefixlen,
    }


def _cidr_subnet(text: str, prefix: int, index: int) -> str:
    found = _network("cidrSubnet", text)
    if not found.prefixlen <= prefix <= found.max_prefixlen:
        raise ExpressionFault("cidrSubnet(): argument 2 must be the prefix of a smaller range")
    if not 0 <= index < 2 ** (prefix - found.prefixlen):
        raise ExpressionFault(f"cidrSubnet(): there is no range {index}")
    start = found.network_address + index * 2 ** (found.max_prefixlen - prefix)
    return f"{start}/{prefix}"


def _cidr_host(text: str, index: int) -> str:
    found = _network("cidrHost", text)
    if not 0 <= index < found.num_addresses - _ENDS:
        raise ExpressionFault(f"cidrHost(): there is no address {index}")
    return str(found.network_address + index + 1)


NUMBERS: Mapping[str, Callable[..., Any]] = {
    "add(int, int)": add,
    "bool(text|number|bool)": _bool,
    "cidrHost(text, int)": _cidr_host,
    "cidrSubnet(text, int, int)": _cidr_subnet,
    "div(int, int)": lambda one, other: _divided("div", one, other)[0],
    "equals(any, any)": lambda one, other: identity(one) == identity(other),
    "fail(text)": _fail,
    "false()": lambda: False,
    "greater(text|number, text|number)": _comparison("greater", gt),
    "greaterOrEquals(text|number, text|number)": _comparison("greaterOrEquals", ge),
    "int(text|int)": _int,
    "less(text|number, text|number)": _comparison("less", lt),
    "lessOrEquals(text|number, text|number)": _comparison("lessOrEquals", le),
    "max(array|number, number...)": _extreme("max", max),
    "min(array|number, number...)": _extreme("min", min),
    "mod(int, int)": lambda one, other: _divided("mod", one, other)[1],
    "mul(int, int)": mul,
    "not(bool)": lambda value: not value,
    "parseCidr(text)": _parse_cidr,
    "sub(int, int)": sub,
    "true()": lambda: True,
}
