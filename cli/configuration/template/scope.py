"""Evaluates the expressions of a template within a budget of work."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from cli.configuration.file_names import COPY
from cli.configuration.source import BeyondLimits, Place, names_size, size_of
from cli.configuration.template.expressions import (
    Constant,
    Expression,
    ExpressionFault,
    FunctionCall,
    MemberAccess,
    is_expression,
    parse,
)
from cli.configuration.template.functions import FUNCTIONS, GROUP_FUNCTIONS, call, lookup
from cli.configuration.template.resource_ids import ResourceGroup
from shared.arm.member_names import in_documented_case

_MAX_COPIES = 800  # as Azure
MAX_STEPS = 500_000  # seconds; 800 event subscriptions need a quarter of it
MAX_TOTAL = 64 * 1024 * 1024  # characters of all values


class EvaluationBudget:
    """What is left for one template; its methods raise an ExpressionFault when nothing is."""

    def __init__(self) -> None:
        self._steps = self._characters = 0

    @property
    def is_spent(self) -> bool:
        """Whether nothing more can be evaluated."""
        return self._steps > MAX_STEPS or self._characters > MAX_TOTAL

    def step(self) -> None:
        """Count the evaluation of one value or expression."""
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise ExpressionFault(f"evaluating the template takes more than {MAX_STEPS:,} steps")

    def hold(self, value: Any) -> Any:
        """Return a value after counting its size."""
        try:
            self.take(size_of(value))
        except BeyondLimits as beyond:
            raise ExpressionFault(str(beyond)) from None
        return value

    def search(self, names: Any) -> None:
        """Count that all *names* are looked at."""
        self.take(names_size(names))

    def take(self, characters: int) -> None:
        """Count *characters*."""
        self._characters += characters
        if self._characters > MAX_TOTAL:
            raise ExpressionFault(
                f"the values of the template have more than {MAX_TOTAL:,} characters in total"
            )


class TemplateFault(Exception):
    """A value of a template can't be evaluated; the text has file, line and path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What the expressions of one template refer to; names are folded."""

    template: Mapping[str, Any]
    place: Place
    group: ResourceGroup
    budget: EvaluationBudget
    # The values of its parameters, or functions that evaluate them on use.
    given: Mapping[str, Any] = field(default_factory=dict)
    modules: dict[str, Scope] = field(default_factory=dict)  # templates deployed by it
    locals: Mapping[str, Any] = field(default_factory=dict)  # lambda variables
    # Indexes of the loops around an expression; that of a resource is ``""``.
    copies: Mapping[str, int] = field(default_factory=dict)
    open: set[tuple[object, ...]] = field(default_factory=set)  # values that are being resolved

    def resolve(self, value: Any, place: Place) -> Any:
        """
        Return a value of the template, at *place*, with all its expressions evaluated.

        Raises:
            TemplateFault: one can't be, or the budget does not suffice.
        """
        own = (place.members, *self.copies.items())
        if own in self.open:
            raise TemplateFault(place.fault("this refers to itself"))
        self.open.add(own)
        try:
            return self.budget.hold(self.resolve_part(value, place))
        except ExpressionFault as fault:
            raise TemplateFault(place.fault(str(fault))) from None
        finally:
            self.open.remove(own)

    def resolve_part(self, value: Any, place: Place) -> Any:
        """Return the same, without counting its size: it becomes part of a value."""
        try:
            self.budget.step()
            if isinstance(value, str):
                return self._text(value)
            if isinstance(value, list):
                return [self.resolve_part(each, place.below(i)) for i, each in enumerate(value)]
            if not isinstance(value, Mapping):
                return value
            return self._object(value, place)
        except ExpressionFault as fault:
            raise TemplateFault(place.fault(str(fault))) from None
        except RecursionError:
            raise TemplateFault(place.fault("this is nested too deeply")) from None

    def repeated(self, copy: Mapping[str, Any], place: Place, *also: str) -> Iterator[Scope]:
        """Yield the scope of each turn of a loop, which is known by its name, and *also* others."""
        count = self.resolve(copy.get("count"), place.below("count"))
        if not isinstance(count, int) or not 0 <= count <= _MAX_COPIES:
            raise TemplateFault(place.fault(f"count must be a number up to {_MAX_COPIES}"))
        for index in range(count):
            named = dict.fromkeys((str(copy.get("name", "")).casefold(), *also), index)
            yield replace(self, copies={**self.copies, **named})

    def output(self, name: str) -> Any:
        """Return the value of one of the template's outputs."""
        definition = self.find(self.template.get("outputs") or {}, name)
        return self.resolve(definition["value"], self.place.below("outputs", name, "value"))

    def evaluate(self, expression: Expression) -> Any:
        """
        Return the value of an expression.

        Raises:
            ExpressionFault: it can't be evaluated.
            TemplateFault: something that it refers to can't be.
        """
        self.budget.step()
        if isinstance(expression, Constant):
            return expression.value
        if isinstance(expression, MemberAccess):
            return self._member(self.evaluate(expression.of), self.evaluate(expression.key))
        if special := _SPECIAL.get(expression.name.lower()):
            return special(self, expression)
        values = [self.evaluate(each) for each in expression.arguments]
        return self._called(expression.name, self.budget.hold(values))

    def _called(self, name: str, values: list[Any]) -> Any:
        if "." in name:
            return self._user_function(name, values)
        if name.lower() in _CONTEXTUAL:
            return call(_CONTEXTUAL, name, self, *values)
        if name.lower() in GROUP_FUNCTIONS:
            return self.budget.hold(call(GROUP_FUNCTIONS, name, self.group, *values))
        return self.budget.hold(call(FUNCTIONS, name, *values))

    def _text(self, text: str) -> Any:
        if is_expression(text):
            return self.evaluate(parse(text[1:-1]))
        return text[1:] if text.startswith("[[") else text

    def _object(self, value: Mapping[str, Any], place: Place) -> dict[str, Any]:
        resolved = {}
        for name, member in value.items():
            if name.lower() == "copy" and isinstance(member, list):
                copies, _ = in_documented_case(member, COPY)
                for index, copy in enumerate(copies):
                    at = place.below("copy", index)
                    resolved[copy["name"]] = [
                        each.resolve_part(copy["input"], at.below("input"))
                        for each in self.repeated(copy, at)
                    ]
            else:
                resolved[self._text(name)] = self.resolve_part(member, place.below(name))
        return resolved

    def _member(self, value: Any, key: Any) -> Any:
        if isinstance(value, Scope):
            return _Outputs(value) if str(key).casefold() == "outputs" else lookup({}, key)
        if isinstance(value, _Outputs):
            return {"value": value.scope.output(key)}
        return self.find(value, key)

    def find(self, value: Any, key: Any) -> Any:
        """
        Return a member of an object, ignoring case, or an element of an array.

        Raises:
            ExpressionFault: there is none.
        """
        if isinstance(value, Mapping) and isinstance(key, str) and key not in value:
            self.budget.search([key, *value])
        return lookup(value, key)

    def _user_function(self, name: str, values: list[Any]) -> Any:
        namespace, _, member = name.partition(".")
        known = self.template.get("functions") or ()
        self.budget.search([each["namespace"] for each in known])
        for number, each in enumerate(known):
            if each["namespace"].casefold() == namespace.casefold():
                function = self.find(each["members"], member)
                names = [one["name"].casefold() for one in function.get("parameters") or ()]
                if len(names) != len(values):
                    raise ExpressionFault(f"{name}(): its arguments do not fit")
                given = dict(zip(names, values, strict=True))
                own = replace(self, given=given, copies={}, open=set())
                place = self.place.below("functions", number, "members", member, "output")
                return own.resolve(function["output"]["value"], place.below("value"))
        raise ExpressionFault(f"the function {name}() is not defined")


class _Outputs(NamedTuple):
    scope: Scope


def _parameter(scope: Scope, name: str) -> Any:
    if name.casefold() in scope.given:
        value = scope.given[name.casefold()]
        return value() if callable(value) else value
    known = scope.template.get("parameters") or {}
    definition = _definition(scope, known, name, "parameter")
    place = scope.place.below("parameters", name)
    if "defaultValue" in definition:
        return scope.resolve(definition["defaultValue"], place.below("defaultValue"))
    if definition.get("nullable"):
        return None
    raise TemplateFault(place.fault("this parameter has no value: give it one"))


def _variable(scope: Scope, name: str) -> Any:
    known = scope.template.get("variables") or {}
    copies = known.get("copy") or ()
    scope.budget.search([copy["name"] for copy in copies])
    for number, copy in enumerate(copies):
        if copy["name"].casefold() == name.casefold():
            place = scope.place.below("variables", "copy", number)
            turns = scope.repeated(copy, place)
            return [each.resolve(copy["input"], place.below("input")) for each in turns]
    value = _definition(scope, known, name, "variable")
    return scope.resolve(value, scope.place.below("variables", name))


def _definition(scope: Scope, known: Mapping[str, Any], name: str, kind: str) -> Any:
    try:
        return scope.find(known, name)
    except ExpressionFault:
        raise ExpressionFault(f"there is no {kind} '{name}'") from None


def _copy_index(scope: Scope, *arguments: Any) -> int:
    texts = [each for each in arguments if isinstance(each, str)]
    numbers = [each for each in arguments if isinstance(each, int)]
    name = (texts[0] if texts else "").casefold()
    if not name and "" not in scope.copies:
        raise ExpressionFault("copyIndex(): there is no loop around it")
    return scope.copies[name] + sum(numbers)


def _reference(scope: Scope, name: str, *_: Any) -> Any:
    """Return a module of the template, for its outputs; no other resource is known here."""
    module = scope.modules.get(name.rpartition("/")[2].casefold())
    if module is None:
        raise ExpressionFault(f"reference('{name}'): only modules of the template are known here")
    return module


_CONTEXTUAL: Mapping[str, Callable[..., Any]] = {
    "copyindex": _copy_index,
    "deployment": lambda _: {"name": "local"},
    "lambdavariables": lambda scope, name: scope.locals[name.casefold()],
    "parameters": _parameter,
    "reference": _reference,
    "variables": _variable,
}


def _if(scope: Scope, call: FunctionCall) -> Any:
    condition, yes, no = call.arguments
    return scope.evaluate(yes if scope.evaluate(condition) else no)


def _applied(scope: Scope, call: FunctionCall) -> tuple[list[Any], Callable[[Any], Any]]:
    """Return the array and the function of a call such as map(…, lambda('x', …))."""
    values, function = call.arguments
    if not isinstance(function, FunctionCall) or function.name.lower() != "lambda":
        raise ExpressionFault(f"{call.name}(): a lambda is expected")
    *names, body = function.arguments
    if len(names) != 1:
        raise ExpressionFault(f"{call.name}(): a lambda of one variable is expected")
    variable = str(scope.evaluate(names[0])).casefold()
    return scope.evaluate(values), lambda value: replace(
        scope, locals={**scope.locals, variable: value}
    ).evaluate(body)


def _map(scope: Scope, call: FunctionCall) -> list[Any]:
    values, function = _applied(scope, call)
    return scope.budget.hold([function(each) for each in values])  # type: ignore[no-any-return]


def _filter(scope: Scope, call: FunctionCall) -> list[Any]:
    values, function = _applied(scope, call)
    return [each for each in values if function(each)]


# These do not evaluate all their arguments, or not in their own scope.
_SPECIAL: Mapping[str, Callable[[Scope, FunctionCall], Any]] = {
    "and": lambda scope, call: all(map(scope.evaluate, call.arguments)),
    "coalesce": lambda scope, call: next(
        (value for each in call.arguments if (value := scope.evaluate(each)) is not None), None
    ),
    "filter": _filter,
    "if": _if,
    "map": _map,
    "or": lambda scope, call: any(map(scope.evaluate, call.arguments)),
}
