"""Knows the resources and modules that a template declares."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from cli.configuration.file_names import TEMPLATE
from cli.configuration.resources import SOURCES, ResourceId, resource_id
from cli.configuration.source import Place
from cli.configuration.template.expressions import ExpressionFault
from cli.configuration.template.form import TemplateFault, check_form, object_at, required
from cli.configuration.template.resource_ids import ResourceGroup
from cli.configuration.template.scope import Scope, Targets
from shared.arm.member_names import in_documented_case
from shared.nearest import did_you_mean

_PROVIDER = "microsoft.eventgrid"
_SOURCES = [[one.lower(), kind.lower()] for kind, one in SOURCES.items()]  # of extensions
_MODULE = "microsoft.resources/deployments"
_EXTENSION = "eventsubscriptions"
_PROVIDERS = re.compile("/providers/", re.IGNORECASE)
_VALUE, _REFERENCE = "value", "reference"  # of a module's parameter


class OfAnotherGroup(Exception):
    """A resource is not in the resource group that the template is read for."""


Module = tuple[Scope, Any, Place]  # with its resources, and where they are


class Declared(NamedTuple):
    """A resource as its template declares it."""

    definition: Mapping[str, Any]
    place: Place
    symbol: str  # its name in the template, if any

    @property
    def type(self) -> str:
        return str(required(self.definition, "type", self.place)).lower()

    @property
    def is_module(self) -> bool:
        return self.type == _MODULE

    @property
    def has_template(self) -> bool:
        """Whether it is a module whose resources are known."""
        at = self.place.below("properties")
        return self.is_module and "template" in object_at(self.definition.get("properties"), at)

    @property
    def is_of_event_grid(self) -> bool:
        """Whether it is a resource of Event Grid, or a module that has one."""
        if not self.is_module:
            return _PROVIDER in self.type
        template = self.definition["properties"].get("template") or {}
        if isinstance(template, str):  # an expression: nobody knows
            return True
        place = self.place.below("properties", "template", "resources")
        return any(each.is_of_event_grid for each in declarations(template.get("resources"), place))

    def turns(self, scope: Scope) -> Iterator[Scope]:
        """Yield the scope of each copy that is deployed: one, or those of its loop."""
        place, copy = self.place, self.definition.get("copy")
        scopes = scope.repeated(copy, place.below("copy"), "") if copy else [scope]
        for each in scopes:
            at = place.below("condition")
            is_deployed = each.resolve(self.definition.get("condition", True), at)
            if not isinstance(is_deployed, bool):
                raise TemplateFault(at.fault("this must be true or false"))
            if is_deployed:
                yield each

    def name(self, scope: Scope) -> str:
        name, at = required(self.definition, "name", self.place), self.place.below("name")
        found = scope.resolve(name, at)
        if not isinstance(found, str):
            raise TemplateFault(at.fault("this must be text"))
        return found

    def group(self, scope: Scope) -> ResourceGroup:
        """Return the resource group that a module deploys to, from the *scope* of its turn."""
        around, found = scope.targets.group, []
        for member in ("subscriptionId", "resourceGroup"):
            at = self.place.below(member)
            found.append(scope.resolve(self.definition.get(member), at))
            if not isinstance(found[-1], str | None):
                raise TemplateFault(at.fault("this must be text"))
        subscription, name = found
        return ResourceGroup(subscription or around.subscription, name or around.name)

    def module(self, scope: Scope) -> Module:
        """Return what a module deploys, from the *scope* of its turn."""
        group = self.group(scope)
        properties, place = self.definition["properties"], self.place.below("properties")
        template, at = properties["template"], place.below("template")
        if isinstance(template, str):  # an expression, such as a variable with a whole file
            template, _ = in_documented_case(scope.resolve(template, at), TEMPLATE)
        check_form(object_at(template, at), at)
        options = object_at(
            properties.get("expressionEvaluationOptions"),
            place.below("expressionEvaluationOptions"),
        )
        resources, resources_at = template["resources"], at.below("resources")
        if str(options.get("scope")).lower() == "inner":
            inner = replace(
                scope,
                template=template,
                place=at,
                group=group,
                targets=DeclaredTargets(declarations(resources, resources_at), group),
                deployment_name=partial(self.name, scope),
                given=_arguments(scope, properties, template, place),
                parameters={},
                copies={},
                locals={},
                open=set(),
            )
        else:
            outputs = {"outputs": template.get("outputs") or {}}
            known = DeclaredTargets(declarations(resources, resources_at), group, scope.targets)
            inner = replace(scope, template={**scope.template, **outputs}, targets=known)
        return inner, resources, resources_at


_ModuleName = tuple[str | None, str]  # the folded id of its group, and its folded name
_Turn = tuple[Declared, Scope]


class DeclaredTargets:
    """The modules and resources of a template that expressions can name."""

    def __init__(
        self, declared: list[Declared], group: ResourceGroup, around: Targets | None = None
    ) -> None:
        self.group = group
        self._declared = declared
        self._around = around
        self._modules: dict[tuple[object, ...], Scope] = {}
        self._turns: Mapping[_ModuleName, _Turn] = {}  # once all names are known

    def module(self, scope: Scope, name: str) -> Scope | None:
        symbol, index = _indexed(name)
        modules = [each for each in self._declared if each.has_template]
        for each in modules:
            if each.symbol.casefold() == symbol:
                return self._module(each, _at_turn(scope, each, index))
        if modules and (own := _module_name(name)):
            turns = self._turns or self._named(scope, modules)
            if turn := turns.get(own):
                return self._module(*turn)
        return self._around.module(scope, name) if self._around else None

    def _named(self, scope: Scope, modules: list[Declared]) -> Mapping[_ModuleName, _Turn]:
        """Return the turns of *modules* by name, with and without the group, as far as known."""
        turns: dict[_ModuleName, _Turn] = {}
        faults: list[Exception] = []
        for each in modules:
            with _noting(faults, scope):
                for turn in each.turns(scope):
                    with _noting(faults, scope):
                        group, own = each.group(turn), each.name(turn).casefold()
                        turns.setdefault((group.folded_id, own), (each, turn))
                        turns.setdefault((None, own), (each, turn))
        if not faults:
            self._turns = turns
        return turns

    def _module(self, declared: Declared, turn: Scope) -> Scope:
        own = (declared.place.members, *turn.copies.items())
        if own not in self._modules:
            self._modules[own], _, _ = declared.module(turn)
        return self._modules[own]

    def resource(self, scope: Scope, name: str) -> ResourceId | None:
        symbol, index = _indexed(name)
        for each in self._declared:
            if each.symbol.casefold() == symbol and not each.is_module:
                types = types_of(each, None)
                turn = _at_turn(scope, each, index)
                is_here = each.group(turn).folded_id == scope.references.group.folded_id
                with suppress(OfAnotherGroup):
                    return identify(turn, each, types, None) if types and is_here else None
                return None
        return self._around.resource(scope, name) if self._around else None


def _indexed(name: str) -> tuple[str, int | None]:
    """Return a folded symbolic name, and its index if it has one: ``topics[1]``."""
    symbol, bracket, index = name.removesuffix("]").partition("[")
    return symbol.casefold(), int(index) if bracket and index.isdecimal() else None


def _at_turn(scope: Scope, declared: Declared, index: int | None) -> Scope:
    copy = declared.definition.get("copy")
    return scope.turn(copy, index, "") if copy and index is not None else scope


@contextmanager
def _noting(faults: list[Exception], scope: Scope) -> Iterator[None]:
    """Note a fault, unless it is the last one: nothing more can be evaluated."""
    try:
        yield
    except (TemplateFault, ExpressionFault) as fault:
        if scope.budget.is_spent:
            raise
        faults.append(fault)


def _module_name(text: str) -> _ModuleName | None:
    """Return the name of a module that a name or an id can mean; ``None``: it is another's id."""
    around, _, name = text.casefold().rpartition("/")
    if around and not around.endswith(f"/{_MODULE}"):
        return None
    group = around.partition("/providers/")[0]
    return (group if "/resourcegroups/" in group else None), name


def _arguments(
    scope: Scope, properties: Mapping[str, Any], template: Mapping[str, Any], place: Place
) -> dict[str, partial[Any]]:
    """Return what a module gets for its parameters, evaluated on use."""
    given, at = properties.get("parameters") or {}, place.below("parameters")
    if not isinstance(given, Mapping):
        raise TemplateFault(at.fault("the parameters must be an object"))
    known = template.get("parameters") or {}
    return {
        own.casefold(): partial(_argument, scope, given[name], at.below(name))
        for name, own in names_of(given, known, at.below)
    }


def _argument(scope: Scope, given: Any, place: Place) -> Any:
    """Return the value of a module's parameter, evaluated in the *scope* around the module."""
    if isinstance(given, str):  # an expression such as if(…, createObject('value', …), …)
        given, is_evaluated = scope.resolve(given, place), True
    else:
        is_evaluated = False
    if isinstance(given, Mapping) and _VALUE in given:
        return given[_VALUE] if is_evaluated else scope.resolve(given[_VALUE], place.below(_VALUE))
    if isinstance(given, Mapping) and _REFERENCE in given:
        raise TemplateFault(place.fault("key vaults are not read: give it a value"))
    raise TemplateFault(place.fault('this must be an object such as {"value": …}'))


def declarations(resources: Any, place: Place) -> list[Declared]:
    """Return the resources of a list or, in languageVersion 2.0, of an object."""
    if isinstance(resources, Mapping):
        return [Declared(each, place.below(name), name) for name, each in resources.items()]
    if not isinstance(resources, list | None):
        raise TemplateFault(place.fault("this must be an array or an object"))
    return [Declared(each, place.below(at), "") for at, each in enumerate(resources or ())]


def names_of(
    given: Iterable[str], known: Iterable[str], at: Callable[[str], Place]
) -> Iterator[tuple[str, str]]:
    """Yield the names of *given* parameters, and how the template that has them writes them."""
    folded = {name.casefold(): name for name in known}
    for name in given:
        if name.casefold() not in folded:
            near = did_you_mean(name, folded.values())
            raise TemplateFault(at(name).fault(f"there is no parameter '{name}'{near}"))
        yield name, folded[name.casefold()]


def types_of(declared: Declared, parent: ResourceId | None) -> tuple[str, ...] | None:
    """Return the types of a resource below its provider; ``None``: it is of another provider."""
    provider, *types = declared.type.split("/")
    if provider == _PROVIDER:
        return tuple(types)
    if [provider, *types[:1]] in _SOURCES and types[1:] == ["providers", _EXTENSION]:
        return tuple(types)
    return (*parent.types, provider, *types) if parent and "." not in provider else None


def identify(
    scope: Scope, declared: Declared, types: tuple[str, ...], parent: ResourceId | None
) -> ResourceId | None:
    """Return the id of a resource; ``None``: Pushgrid has none of its kind."""
    names = tuple(declared.name(scope).split("/"))
    if parent and len(names) < len(types):
        names = (*parent.names, *names)
    if types == (_EXTENSION,) and "scope" in declared.definition:
        place = declared.place.below("scope")
        extended = str(scope.resolve(declared.definition["scope"], place))
        provider, *parts = _PROVIDERS.split(extended)[-1].split("/")
        if not extended.startswith("/") and "." not in provider:
            raise TemplateFault(place.fault("this must be the id of a resource"))
        here = f"{scope.references.group.folded_id}/"
        if extended.startswith("/") and not extended.casefold().startswith(here):
            raise OfAnotherGroup
        is_source = [provider.lower(), *(each.lower() for each in parts[:1])] in _SOURCES
        if provider.lower() != _PROVIDER and not is_source:
            return None
        types, names = (*parts[::2], *types), (*parts[1::2], *names)
    if "providers" in types:  # the extension form without a scope: TOPIC/Microsoft.EventGrid/NAME
        at = types.index("providers")
        types, names = types[:at] + types[at + 1 :], names[:at] + names[at + 1 :]
    found = resource_id(types, names)
    if found is None and resource_id(types, types):
        count = f"takes {len(types)} names, not {len(names)}"
        wrong = f"the type {declared.definition['type']} {count}"
        raise TemplateFault(declared.place.below("name").fault(wrong))
    return found
