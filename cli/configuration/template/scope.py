"""Evaluates the expressions of a template within a budget of work."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Protocol

from cli.configuration.deployed import Answers, Placeholders
from cli.configuration.file_names import COPY
from cli.configuration.resources import ResourceId
from cli.configuration.source import Place
from cli.configuration.template.budget import EvaluationBudget
from cli.configuration.template.expressions import (
    Constant,
    Expression,
    ExpressionFault,
    FunctionCall,
    MemberAccess,
    is_expression,
    parse,
)
from cli.configuration.template.form import TemplateFault, object_at, required
from cli.configuration.template.functions import find
from cli.configuration.template.parameter_types import Definition, Types
from cli.configuration.template.resource_ids import ResourceGroup
from cli.configuration.template.signatures import Gets, TemplateFunction
from cli.configuration.template.values import LambdaFunction, LazyObject, lookup, whole
from shared.arm.member_names import in_documented_case
from shared.nearest import did_you_mean

_MAX_COPIES = 800  # as Azure
_LAMBDA = "lambda"


class References:
    """The resources that expressions refer to, by reference() and listKeys()."""

    def __init__(self, group: ResourceGroup) -> None:
        self.group = group  # the others' resources have no answers
        self.answers: Answers = Placeholders()
        self.uses = 0  # how often one was used
        self.is_reading = True  # before a deployment is asked
        self._used: set[ResourceId] | None = None  # ``None``: where ARM allows no reference

    def collected(self, evaluate: Callable[[], Any]) -> tuple[Any, frozenset[ResourceId]]:
        """Return what *evaluate* returns, which may refer to resources, and those resources."""
        self._used = set()
        try:
            return evaluate(), frozenset(self._used)
        finally:
            self._used = None

    def use(self, name: str, own: ResourceId) -> Answers:
        """Return who answers for a resource, to the function *name*."""
        if self._used is None:
            wrong = "only properties of a resource can depend on what is deployed"
            raise ExpressionFault(f"{name}(): {wrong}")
        self._used.add(own.folded)
        self.uses += 1
        return self.answers


class Targets(Protocol):
    """The modules and resources of a template, for reference() and listKeys()."""

    @property
    def group(self) -> ResourceGroup:
        """The resource group that they are deployed in."""

    def module(self, scope: Scope, name: str) -> Scope | None:
        """Return the scope of the module that an id or a symbolic name names."""

    def resource(self, scope: Scope, name: str) -> ResourceId | None:
        """Return the resource of Event Grid that has a symbolic name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What the expressions of one template refer to; names are folded."""

    template: Mapping[str, Any]
    place: Place
    group: ResourceGroup  # of resourceGroup()
    budget: EvaluationBudget
    functions: Mapping[str, TemplateFunction]  # by name in lower case
    targets: Targets
    references: References
    offers_options: bool  # whether faults name --parameter
    now: datetime
    deployment_name: Callable[[], str]
    # The values of its parameters, or functions that evaluate them on use.
    given: Mapping[str, Any] = field(default_factory=dict)
    # Those that were evaluated, and hold no answer.
    parameters: dict[str, Any] = field(default_factory=dict)
    locals: Mapping[str, Any] = field(default_factory=dict)  # lambda variables
    # Indexes of the loops around an expression; that of a resource is ``""``.
    copies: Mapping[str, int] = field(default_factory=dict)
    open: set[tuple[object, ...]] = field(default_factory=set)  # values that are being resolved
    is_default: bool = False  # whether the expression is a parameter's default value

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
        count = self.resolve(object_at(copy, place).get("count"), place.below("count"))
        if type(count) is not int or not 0 <= count <= _MAX_COPIES:
            raise TemplateFault(place.fault(f"count must be a number up to {_MAX_COPIES}"))
        for index in range(count):
            yield self.turn(copy, index, *also)

    def turn(self, copy: Mapping[str, Any], index: int, *also: str) -> Scope:
        """Return the scope of one turn of a loop."""
        named = dict.fromkeys((str(copy.get("name", "")).casefold(), *also), index)
        return replace(self, copies={**self.copies, **named})

    def output(self, name: str) -> Any:
        """Return the value of one of the template's outputs."""
        definition = self.template["outputs"][name]
        place = self.place.below("outputs", name)
        if copy := definition.get("copy"):
            at = place.below("copy")
            turns = self.repeated(copy, at, "")
            return [each.resolve(required(copy, "input", at), at.below("input")) for each in turns]
        return self.resolve(required(definition, "value", place), place.below("value"))

    def evaluate(self, expression: Expression) -> Any:
        """
        Return the value of an expression.

        Raises:
            ExpressionFault: it can't be evaluated.
            TemplateFault: something that it refers to can't be.
        """
        return whole(self.reach(expression))

    def reach(self, expression: Expression) -> Any:
        """Return the same, or a lazy object."""
        self.budget.step()
        if isinstance(expression, Constant):
            return expression.value
        if isinstance(expression, MemberAccess):
            of, key = self.reach(expression.of), self.evaluate(expression.key)
            return self.find(of, key, is_written=isinstance(expression.key, Constant))
        if "." in expression.name:
            values = [self.evaluate(each) for each in expression.arguments]
            return self._user_function(expression.name, self.budget.hold(values))
        return self._called(find(self.functions, expression.name), expression)

    def _called(self, function: TemplateFunction, call: FunctionCall) -> Any:
        function.check_arity(len(call.arguments))
        if function.gets is Gets.EXPRESSIONS:
            return function.call(self, function, call.arguments)
        values = [self._argument(each) for each in call.arguments]
        self.budget.hold(values)
        context = {Gets.SCOPE: (self,), Gets.GROUP: (self.group,)}.get(function.gets, ())
        found = function(context, values)
        return found if function.gets is Gets.SCOPE else self.budget.hold(found)

    def _argument(self, expression: Expression) -> Any:
        if isinstance(expression, FunctionCall) and expression.name.lower() == _LAMBDA:
            return self._lambda(expression)
        return self.evaluate(expression)

    def _lambda(self, call: FunctionCall) -> LambdaFunction:
        *names, body = call.arguments or (Constant(None),)
        variables = tuple(str(self.evaluate(each)).casefold() for each in names)

        def apply(*values: Any) -> Any:
            given = dict(zip(variables, values, strict=True))
            return replace(self, locals={**self.locals, **given}).evaluate(body)

        return LambdaFunction(variables, apply)

    def _text(self, text: str) -> Any:
        if not is_expression(text):
            return text[1:] if text.startswith("[[") else text
        uses = self.references.uses
        try:
            return self.evaluate(parse(text[1:-1]))
        except (ExpressionFault, TemplateFault):
            is_of_placeholder = self.references.is_reading and self.references.uses != uses
            if not is_of_placeholder or self.budget.is_spent:
                raise
            return None  # what the deployment answers may suit it

    def _object(self, value: Mapping[str, Any], place: Place) -> dict[str, Any]:
        resolved = {}
        for name, member in value.items():
            if name.lower() == "copy" and isinstance(member, list):
                copies, _ = in_documented_case(member, COPY)
                for index, copy in enumerate(copies):
                    at = place.below("copy", index)
                    resolved[required(copy, "name", at)] = [
                        each.resolve_part(required(copy, "input", at), at.below("input"))
                        for each in self.repeated(copy, at)
                    ]
            else:
                key = self._text(name)
                if not isinstance(key, str):
                    raise TemplateFault(place.below(name).fault("the name must be text"))
                resolved[key] = self.resolve_part(member, place.below(name))
        return resolved

    def find(self, value: Any, key: Any, *, is_written: bool = False) -> Any:
        """
        Return a member of an object, ignoring case, or an element of an array.

        Raises:
            ExpressionFault: there is none.
        """
        if isinstance(value, LazyObject):
            return self.find(value.members, key, is_written=is_written)()
        if isinstance(value, Mapping) and isinstance(key, str) and key not in value:
            self.budget.search([key, *value])
        return lookup(value, key, is_written=is_written)

    def checked(self, value: Any, definition: Definition, place: Place) -> Any:
        """
        Return the value of a parameter.

        Raises:
            TemplateFault: it does not have the parameter's type.
        """
        for fault in self.types.faults(value, definition, place):
            raise TemplateFault(fault)
        return value

    @property
    def types(self) -> Types:
        """The types that the template defines."""
        return Types(self.template.get("definitions") or {}, self.budget.step)

    def _user_function(self, name: str, values: list[Any]) -> Any:
        namespace, _, member = name.partition(".")
        known = self.template.get("functions") or ()
        self.budget.search([each["namespace"] for each in known])
        for number, each in enumerate(known):
            if each["namespace"].casefold() == namespace.casefold():
                function = declared_as(self, each["members"], member, f"function {namespace}.")
                place = self.place.below("functions", number, "members", member)
                given = self._given(name, function.get("parameters") or (), values, place)
                own = replace(self, given=given, parameters={}, copies={}, open=set())
                at = place.below("output", "value")
                return own.resolve(function["output"]["value"], at)
        raise ExpressionFault(f"there is no function {name}()")

    def _given(
        self, name: str, parameters: Sequence[Any], values: Sequence[Any], place: Place
    ) -> Mapping[str, Any]:
        if len(parameters) != len(values):
            noun = "argument" if len(parameters) == 1 else "arguments"
            raise ExpressionFault(f"{name}() takes {len(parameters)} {noun}, not {len(values)}")
        return {
            one["name"].casefold(): self.checked(value, one, place.below("parameters", index))
            for index, (one, value) in enumerate(zip(parameters, values, strict=True))
        }


def declared_as(scope: Scope, known: Mapping[str, Any], name: str, kind: str) -> Any:
    """
    Return what a template declares by *name*, in any case; *kind* is for the fault.

    Raises:
        ExpressionFault: it declares nothing so.
    """
    try:
        return scope.find(known, name)
    except ExpressionFault:
        quoted = f"{name}()" if kind.startswith("function") else f"'{name}'"
        near = did_you_mean(name, known)
        raise ExpressionFault(f"there is no {kind}{quoted}{near}") from None
