"""
Has the functions of ARM templates in one table, but for those of `scope_functions`.

Source: "ARM template functions" (2025), held against Bicep's own evaluator, which wins.
"""

from __future__ import annotations

from collections.abc import Mapping

from cli.configuration.template.arrays import ARRAYS
from cli.configuration.template.dates import DATES
from cli.configuration.template.expressions import ExpressionFault
from cli.configuration.template.numbers import NUMBERS
from cli.configuration.template.resource_ids import GROUP_FUNCTIONS
from cli.configuration.template.signatures import Gets, TemplateFunction, functions
from cli.configuration.template.texts import TEXTS
from shared.nearest import did_you_mean

FUNCTIONS: Mapping[str, TemplateFunction] = {
    each.name.lower(): each
    for each in (
        *functions({**TEXTS, **ARRAYS, **NUMBERS, **DATES}),
        *functions(GROUP_FUNCTIONS, Gets.GROUP),
    )
}

# What only Azure knows.
_OF_AZURE = frozenset(
    "deployer managementGroup pickZones providers references toLogicalZone toLogicalZones "
    "toPhysicalZone toPhysicalZones".lower().split()
)


def find(known: Mapping[str, TemplateFunction], name: str) -> TemplateFunction:
    """
    Return the function *name* of those that are *known* by their names in lower case.

    Raises:
        ExpressionFault: there is none.
    """
    if found := known.get(name.lower()):
        return found
    near = did_you_mean(name, [each.name for each in known.values()])
    if name.lower() in _OF_AZURE or name.lower().startswith("list"):
        raise ExpressionFault(f"{name}() is not available here: it needs Azure{near}")
    if name.lower() == "lambda":
        raise ExpressionFault("lambda() is for the arguments of functions such as map()")
    raise ExpressionFault(f"there is no function {name}(){near}")
