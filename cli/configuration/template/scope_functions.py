"""
Defines the functions that depend on where in a template they are called, and joins all functions.

Source: "ARM template functions" (2025), held against Bicep's own evaluator, which wins.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from cli.configuration.deployed import Answers, MissingResource
from cli.configuration.resources import ResourceId, resource_id
from cli.configuration.source import Place
from cli.configuration.template.dates import formatted_date
from cli.configuration.template.expressions import Expression, ExpressionFault
from cli.configuration.template.form import TemplateFault, required
from cli.configuration.template.functions import FUNCTIONS
from cli.configuration.template.resource_ids import ResourceGroup
from cli.configuration.template.scope import Scope, declared_as
from cli.configuration.template.signatures import Gets, TemplateFunction, functions
from cli.configuration.template.values import LazyObject


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
    definition = declared_as(scope, known, name, "parameter ")
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
    value = declared_as(scope, known, name, "variable ")
    return scope.resolve(value, scope.place.below("variables", name))


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
