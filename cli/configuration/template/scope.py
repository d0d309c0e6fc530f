"""Evaluates the expressions of a template within a budget of work."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple, Protocol

from cli.configuration.deployed import Answers, MissingResource, Placeholders
from cli.configuration.file_names import COPY
from cli.configuration.resources import ResourceId, resource_id
from cli.configuration.source import BeyondLimits, Place, names_size, size_of
from cli.configuration.template.dates import formatted_date
from cli.configuration.template.expressions import (
    Constant,
    Expression,
    ExpressionFault,
    FunctionCall,
    MemberAccess,
    is_expression,
    parse,
)
from cli.configuration.template.functions import FUNCTIONS, find
from cli.configuration.template.parameter_types import Definition, Types
from cli.configuration.template.resource_ids import ResourceGroup
from cli.configuration.template.signatures import Gets, TemplateFunction, functions
from cli.configuration.template.values import LambdaFunction, LazyObject, lookup, whole
from shared.arm.member_names import in_documented_case
from shared.nearest import did_you_mean

_MAX_COPIES = 800  # as Azure
MAX_STEPS = 500_000  # a few seconds; 800 event subscriptions need a quarter of them
MAX_TOTAL = 64 * 1024 * 1024  # characters of all values
_LAMBDA = "lambda"


class EvaluationBudget:
    """What is left for one template; its methods raise an ExpressionFault when nothing is."""

    def __init__(self) -> None:
        self._steps = self._characters = 0

    def renew(self) -> None:
        """Begin anew."""
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


def required(definition: Any, name: str, place: Place) -> Any:
    """
    Return a member that a part of a template must have.

    Raises:
        TemplateFault: it has not.
    """
    if not isinstance(definition, Mapping):
        raise TemplateFault(place.fault("this must be an object"))
    if name not in definition:
        raise TemplateFault(place.fault(f"{name} is missing"))
    return definition[name]


def object_at(value: Any, place: Place) -> Mapping[str, Any]:
    """
    Return a part of a template that must be an object; a missing one is empty.

    Raises:
        TemplateFault: it is none.
    """
    if not isinstance(value, Mapping | None):
        raise TemplateFault(place.fault("this must be an object"))
    return value or {}


def check_form(template: Mapping[str, Any], place: Place) -> None:
    """
    Return if what a template declares has the form that it must have.

    Raises:
        TemplateFault: a part of it has not.
    """
    object_at(template.get("variables"), place.below("variables"))
    for member in ("parameters", "outputs"):
        _check_objects(template.get(member), place.below(member))
    functions, at = template.get("functions") or [], place.below("functions")
    if not isinstance(functions, list):
        raise TemplateFault(at.fault("this must be an array"))
    for index, each in enumerate(functions):
        own = at.below(index)
        if not isinstance(required(each, "namespace", own), str):
            raise TemplateFault(own.below("namespace").fault("this must be text"))
        _check_objects(required(each, "members", own), own.below("members"))


def _check_objects(value: Any, place: Place) -> None:
    for name, each in object_at(value, place).items():
        object_at(each, place.below(name))


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
        return self._called(find(ALL_FUNCTIONS, expression.name), expression)

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
                function = _definition(self, each["members"], member, f"function {namespace}.")
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


def _module(scope: Scope) -> LazyObject:
    """Return a module of the template, as reference() shows it."""
    known = scope.template.get("outputs") or {}
    outputs = LazyObject({name: partial(_output, scope, name) for name in known})
    return LazyObject({"outputs": lambda: outputs, "provisioningState": lambda: "Succeeded"})


def _output(scope: Scope, name: str) -> dict[str, Any]:
    return {"type": scope.template["outputs"][name].get("type"), "value": scope.output(name)}


def _parameter(scope: Scope, name: str) -> Any:
    folded = name.casefold()
    if folded in scope.parameters:
        return scope.budget.hold(scope.parameters[folded])
    uses = scope.references.uses
    value = _evaluated_parameter(scope, name)
    if scope.references.uses == uses:
        scope.parameters[folded] = value
    return scope.budget.hold(value)


def _evaluated_parameter(scope: Scope, name: str) -> Any:
    known = scope.template.get("parameters") or {}
    is_given = name.casefold() in scope.given
    given: Any = scope.given.get(name.casefold())
    if is_given and not callable(given):
        return given  # it was checked
    definition = _definition(scope, known, name, "parameter ")
    place = scope.place.below("parameters", name)
    value = given() if is_given else None
    if value is None and "defaultValue" in definition:
        value = _default(scope, name, definition["defaultValue"], place.below("defaultValue"))
    elif value is None and not is_given and not definition.get("nullable"):
        remedy = _remedy(scope, name, "; give it a default value")
        raise TemplateFault(place.fault(f"this parameter has no value{remedy}"))
    return scope.checked(value, definition, place)


def _default(scope: Scope, name: str, value: Any, place: Place) -> Any:
    try:
        return replace(scope, is_default=True).resolve(value, place)
    except TemplateFault as fault:
        raise TemplateFault(f"{fault}{_remedy(scope, name)}") from None


def _remedy(scope: Scope, name: str, otherwise: str = "") -> str:
    """Return the end of a fault that the user of a template can mend, not its author alone."""
    if scope.place.members:
        return ""
    return f"; use --parameter {name}=…" if scope.offers_options else otherwise


def _variable(scope: Scope, name: str) -> Any:
    known = scope.template.get("variables") or {}
    copies = known.get("copy") or ()
    scope.budget.search([copy["name"] for copy in copies])
    for number, copy in enumerate(copies):
        if copy["name"].casefold() == name.casefold():
            place = scope.place.below("variables", "copy", number)
            turns = scope.repeated(copy, place)
            every = required(copy, "input", place)
            return [each.resolve(every, place.below("input")) for each in turns]
    value = _definition(scope, known, name, "variable ")
    return scope.resolve(value, scope.place.below("variables", name))


def _definition(scope: Scope, known: Mapping[str, Any], name: str, kind: str) -> Any:
    try:
        return scope.find(known, name)
    except ExpressionFault:
        quoted = f"{name}()" if kind.startswith("function") else f"'{name}'"
        near = did_you_mean(name, known)
        raise ExpressionFault(f"there is no {kind}{quoted}{near}") from None


def _copy_index(scope: Scope, *arguments: str | int) -> int:
    texts = [each for each in arguments if isinstance(each, str)]
    numbers = [each for each in arguments if isinstance(each, int)]
    name = (texts[0] if texts else "").casefold()
    if name not in scope.copies:
        of = f" '{texts[0]}'" if texts else ""
        raise ExpressionFault(f"copyIndex(): there is no loop{of} around it")
    return scope.copies[name] + sum(numbers)


def _lambda_variable(scope: Scope, name: str) -> Any:
    if name.casefold() not in scope.locals:
        raise ExpressionFault(f"there is no variable '{name}' of a lambda around it")
    return scope.locals[name.casefold()]


def _deployment(scope: Scope) -> dict[str, Any]:
    names = ("$schema", "contentVersion", "metadata")
    shown = {name: scope.template[name] for name in names if name in scope.template}
    return {
        "name": scope.deployment_name(),
        "location": "local",
        "properties": {
            "mode": "Incremental",
            "provisioningState": "Accepted",
            "template": shown,
        },
    }


def _only_in_defaults(scope: Scope, name: str) -> None:
    if not scope.is_default:
        where = "only the default value of a parameter can use it, as in Azure"
        raise ExpressionFault(f"{name}(): {where}")


def _utc_now(scope: Scope, form: str = "yyyyMMddTHHmmssZ") -> str:
    _only_in_defaults(scope, "utcNow")
    return formatted_date(scope.now, form)


def _new_guid(scope: Scope) -> str:
    _only_in_defaults(scope, "newGuid")
    return str(uuid.uuid4())


class _Target(NamedTuple):
    """A resource of Event Grid that an expression refers to."""

    id: ResourceId
    answers: Answers


def _target(scope: Scope, function: str, name: str) -> _Target:
    own = scope.targets.resource(scope, name) or _of_arm_id(scope.references.group, name)
    if own is None:
        known = "only modules of the template and resources of Event Grid are known here"
        raise ExpressionFault(f"{function}('{name}'): {known}")
    return _Target(own, scope.references.use(function, own))


def _of_arm_id(group: ResourceGroup, text: str) -> ResourceId | None:
    """Return the resource of Event Grid in the resource *group* that an ARM id names."""
    start = f"{group.id}/providers/Microsoft.EventGrid/"
    if text[: len(start)].casefold() != start.casefold():
        return None
    parts = text[len(start) :].split("/")
    return resource_id(tuple(parts[::2]), tuple(parts[1::2]))


def _reference(scope: Scope, name: str, version: str = "", form: str = "") -> Any:
    """Return a module, for its outputs, or what the deployment has of a resource."""
    del version
    if module := scope.targets.module(scope, name):
        return _module(module)
    target = _target(scope, "reference", name)
    try:
        document = target.answers.document(target.id)
    except MissingResource as missing:
        raise ExpressionFault(f"reference(): {missing}") from None
    is_full = form.casefold() == "full"
    return scope.budget.hold(document if is_full else document.get("properties") or {})


def _secure_outputs(scope: Scope, name: str, *_: Any) -> LazyObject:
    """Return the outputs of a module, without their types."""
    module = scope.targets.module(scope, name)
    if module is None:
        known = "only modules of the template are known here"
        raise ExpressionFault(f"listOutputsWithSecureValues('{name}'): {known}")
    outputs = module.template.get("outputs") or {}
    return LazyObject({each: partial(module.output, each) for each in outputs})


def _list_keys(scope: Scope, name: str, *_: Any) -> Any:
    target = _target(scope, "listKeys", name)
    try:
        return scope.budget.hold(dict(target.answers.keys(target.id)))
    except MissingResource as missing:
        raise ExpressionFault(f"listKeys(): {missing}") from None


def _if(scope: Scope, function: TemplateFunction, arguments: Sequence[Expression]) -> Any:
    condition, yes, no = arguments
    return scope.reach(yes if function.check(scope.evaluate(condition), 0) else no)


def _checked(
    scope: Scope, function: TemplateFunction, arguments: Sequence[Expression]
) -> Iterator[Any]:
    return (function.check(scope.evaluate(each), at) for at, each in enumerate(arguments))


def _coalesce(scope: Scope, function: TemplateFunction, arguments: Sequence[Expression]) -> Any:
    values = _checked(scope, function, arguments)
    return next((value for value in values if value is not None), None)


def _try_get(scope: Scope, function: TemplateFunction, arguments: Sequence[Expression]) -> Any:
    """Return a member, and a member of that; ``None``: there is no first one."""
    of, *others = arguments
    value = scope.reach(of)
    for position, expression in enumerate(others, start=1):
        key = function.check(scope.evaluate(expression), position)
        try:
            value = None if value is None else scope.find(value, key)
        except ExpressionFault:
            if position > 1 or scope.budget.is_spent:
                raise
            return None
    return value


ALL_FUNCTIONS: Mapping[str, TemplateFunction] = {
    **FUNCTIONS,
    **{
        each.name.lower(): each
        for each in (
            *functions(
                {
                    "copyIndex(text|int?, int?)": _copy_index,
                    "deployment()": _deployment,
                    "lambdaVariables(text)": _lambda_variable,
                    "listKeys(text, text?, object?)": _list_keys,
                    "listOutputsWithSecureValues(text, text?)": _secure_outputs,
                    "newGuid()": _new_guid,
                    "parameters(text)": _parameter,
                    "reference(text, text?, text?)": _reference,
                    "utcNow(text?)": _utc_now,
                    "variables(text)": _variable,
                },
                Gets.SCOPE,
            ),
            *functions(
                {
                    "and(bool, bool, bool...)": lambda *call: all(_checked(*call)),
                    "coalesce(any, any...)": _coalesce,
                    "if(bool, any, any)": _if,
                    "or(bool, bool, bool...)": lambda *call: any(_checked(*call)),
                    "tryGet(any, text|int, text|int...)": _try_get,
                },
                Gets.EXPRESSIONS,
            ),
        )
    },
}
