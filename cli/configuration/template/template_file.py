"""Finds the topics, namespaces and event subscriptions of a template, in every form of nesting."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from operator import gt, lt
from typing import Any, NamedTuple

from cli.configuration.file_names import TEMPLATE
from cli.configuration.resources import (
    SENT,
    Configuration,
    ResourceId,
    WantedResource,
    ordered,
    resource_id,
)
from cli.configuration.source import (
    MAX_FAULTS,
    BeyondLimits,
    FileFaults,
    Place,
    SourceFile,
    size_of,
)
from cli.configuration.template.expressions import ExpressionFault, parse
from cli.configuration.template.resource_ids import ResourceGroup
from cli.configuration.template.scope import EvaluationBudget, Scope, TemplateFault
from shared.arm.member_names import Names, in_documented_case

_MARKS = Names("$schema", "resources")
_SCHEMA = "deploymenttemplate.json"
_PROVIDER = "microsoft.eventgrid"
_SOURCES = (["microsoft.storage", "storageaccounts"], ["pushgrid", "deployments"])  # of extensions
_MODULE = "microsoft.resources/deployments"
_MALFORMED = (AttributeError, LookupError, TypeError, ValueError)
_EXTENSION = "eventsubscriptions"
_BOUNDS = {"minLength": lt, "minValue": lt, "maxLength": gt, "maxValue": gt}  # of a parameter


def is_template(value: Any) -> bool:
    """Tell whether the value of a file is a template, compiled from Bicep or written by hand."""
    if not isinstance(value, Mapping):
        return False
    known, _ = in_documented_case(value, _MARKS)
    return _SCHEMA in str(known.get("$schema")).lower() and "resources" in known


def read_template(
    source: SourceFile, parameters: Mapping[str, Any], group: ResourceGroup
) -> Configuration:
    """
    Read a template with its *parameters*, as for the resource *group*.

    Raises:
        FileFaults: all faults, each with its line.
    """
    source = source.in_documented_case(TEMPLATE)
    budget = EvaluationBudget()
    reader = _Reader(budget)
    parse.cache_clear()  # a process may read one version of a file after the other
    try:
        given = _given(source, parameters)
        scope = Scope(
            template=source.value, place=source.root, group=group, budget=budget, given=given
        )
        reader.read(scope, source.value["resources"], source.root.below("resources"))
    except TemplateFault as fault:
        reader.faults.append(str(fault))
    except _Ended:
        pass
    except _MALFORMED:
        reader.faults.append(source.root.fault("this is not the form of a template"))
    if reader.faults:
        raise FileFaults(*reader.faults)
    return ordered(reader.resources, tuple(reader.left_out))


def _given(source: SourceFile, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of parameters by folded name; texts are read as their type says."""
    known = source.value.get("parameters") or {}
    folded = {name.casefold(): name for name in known}
    given = {}
    for name, value in parameters.items():
        if name.casefold() not in folded:
            raise TemplateFault(source.root.fault(f"there is no parameter '{name}'"))
        own = folded[name.casefold()]
        place = source.root.below("parameters", own)
        given[name.casefold()] = _typed(known[own], source.value, value, place)
    return given


def _typed(
    definition: Mapping[str, Any], template: Mapping[str, Any], value: Any, place: Place
) -> Any:
    kind = str(definition.get("type") or "")
    if reference := definition.get("$ref"):
        named = template.get("definitions", {}).get(reference.rpartition("/")[2], {})
        kind = str(named.get("type") or "")
    if isinstance(value, str) and not kind.lower().endswith("string"):
        try:
            value = json.loads(value)
            size_of(value)
        except BeyondLimits as beyond:
            raise TemplateFault(place.fault(str(beyond))) from None
        except (ValueError, RecursionError):
            raise TemplateFault(place.fault(f"'{value}' is no {kind or 'JSON'}")) from None
    allowed = definition.get("allowedValues")
    if allowed and value not in allowed:
        raise TemplateFault(place.fault(f"the value is none of: {json.dumps(allowed)}"))
    size = len(value) if isinstance(value, str | list) else value
    for bound, is_beyond in _BOUNDS.items():
        limit = definition.get(bound)
        if isinstance(limit, int) and isinstance(size, int) and is_beyond(size, limit):
            raise TemplateFault(place.fault(f"{bound} is {limit}"))
    return value


class _Ended(Exception):
    """Nothing more can be read."""


_Module = tuple[Scope, Any, Place]  # with its resources, and where they are


class _Declared(NamedTuple):
    """A resource as its template declares it."""

    definition: Mapping[str, Any]
    place: Place
    symbol: str  # its name in the template, if any

    @property
    def is_module(self) -> bool:
        return str(self.definition["type"]).lower() == _MODULE

    def turns(self, scope: Scope) -> Iterator[Scope]:
        """Yield the scope of each copy that is deployed: one, or those of its loop."""
        place, copy = self.place, self.definition.get("copy")
        scopes = scope.repeated(copy, place.below("copy"), "") if copy else [scope]
        for each in scopes:
            if each.resolve(self.definition.get("condition", True), place.below("condition")):
                yield each

    def name(self, scope: Scope) -> str:
        return str(scope.resolve(self.definition["name"], self.place.below("name")))


def _argument(scope: Scope, given: Mapping[str, Any], place: Place) -> Any:
    """Return the value of a module's parameter, evaluated in the *scope* around the module."""
    if "value" not in given:
        raise TemplateFault(place.fault("only a parameter with a value can be read"))
    return scope.resolve(given["value"], place.below("value"))


def _declared(resources: Any, place: Place) -> list[_Declared]:
    """Return the resources of a list or, in languageVersion 2.0, of an object."""
    named = resources.items() if isinstance(resources, Mapping) else enumerate(resources or ())
    return [_Declared(definition, place.below(name), str(name)) for name, definition in named]


class _Reader:
    """Collects the resources of a template and its modules, what is left out, and the faults."""

    def __init__(self, budget: EvaluationBudget) -> None:
        self._budget = budget
        self.resources: list[WantedResource] = []
        self.left_out: list[str] = []
        self.faults: list[str] = []

    def read(
        self, scope: Scope, resources: Any, place: Place, parent: ResourceId | None = None
    ) -> None:
        """Read *resources*; *parent* is the resource that they are nested in."""
        modules: list[_Module] = []
        others: list[_Declared] = []
        for each in _declared(resources, place):
            with self._collecting(each):
                self._budget.take(len(each.definition["type"]))
                if each.is_module:
                    modules += self._modules(scope, each)
                elif not each.definition.get("existing"):
                    others.append(each)
        for each in others:
            with self._collecting(each):
                self._read_resource(scope, each, parent)
        for inner, inner_resources, inner_place in modules:
            self.read(inner, inner_resources, inner_place)

    def _read_resource(self, scope: Scope, declared: _Declared, parent: ResourceId | None) -> None:
        types = _types(declared, parent)
        if types is None:
            self._leave_out(declared)
            return
        for turn in declared.turns(scope):
            own = _identify(turn, declared, types, parent)
            if own is None:
                self._leave_out(declared)
                return
            place = declared.place
            document = {
                name: turn.resolve(declared.definition[name], place.below(name))
                for name in SENT
                if name in declared.definition
            }
            self._budget.hold(document)
            document, repeated = in_documented_case(document, own.member_names)
            for fault in repeated:
                raise TemplateFault(place.fault_at(fault.target, fault.message))
            self.resources.append(WantedResource(id=own, place=place, document=document))
            inner = declared.definition.get("resources")
            self.read(turn, inner, place.below("resources"), own)

    def _modules(self, scope: Scope, declared: _Declared) -> Iterator[_Module]:
        """Make known the templates that a module deploys; yield their scopes and resources."""
        properties, place = declared.definition["properties"], declared.place.below("properties")
        template = properties.get("template")
        if template is None:
            self._leave_out(declared)
            return
        options = properties.get("expressionEvaluationOptions") or {}
        at = place.below("template")
        for turn in declared.turns(scope):
            if str(options.get("scope")).lower() == "inner":
                given = {
                    name.casefold(): partial(_argument, turn, each, place.below("parameters", name))
                    for name, each in (properties.get("parameters") or {}).items()
                }
                inner = Scope(
                    template=template,
                    place=at,
                    group=scope.group,
                    budget=scope.budget,
                    given=given,
                )
            else:
                outputs = {"outputs": template.get("outputs") or {}}
                inner = replace(turn, template={**turn.template, **outputs})
            index = f"[{turn.copies['']}]" if "copy" in declared.definition else ""
            for name in (declared.symbol + index, declared.name(turn)):
                scope.modules[name.casefold()] = inner
            yield inner, template["resources"], at.below("resources")

    def _leave_out(self, declared: _Declared) -> None:
        kind = declared.definition["type"]
        self._budget.take(len(kind))
        self.left_out.append(f"{kind}, line {declared.place.line}")

    @contextmanager
    def _collecting(self, declared: _Declared) -> Iterator[None]:
        """Collect the faults of a resource; the others are read all the same."""
        try:
            yield
        except TemplateFault as fault:
            self.faults.append(str(fault))
        except ExpressionFault as fault:
            self.faults.append(declared.place.fault(str(fault)))
        except _MALFORMED:
            self.faults.append(declared.place.fault("this is not the form of a resource"))
        if self._budget.is_spent or len(self.faults) > MAX_FAULTS:
            raise _Ended


def _types(declared: _Declared, parent: ResourceId | None) -> tuple[str, ...] | None:
    """Return the types of a resource below its provider; ``None``: it is of another provider."""
    provider, *types = str(declared.definition["type"]).lower().split("/")
    if provider == _PROVIDER:
        return tuple(types)
    if [provider, *types[:1]] in _SOURCES and types[1:] == ["providers", _EXTENSION]:
        return tuple(types)
    return (*parent.types, provider, *types) if parent and "." not in provider else None


def _identify(
    scope: Scope, declared: _Declared, types: tuple[str, ...], parent: ResourceId | None
) -> ResourceId | None:
    """Return the id of a resource; ``None``: Pushgrid has none of its kind."""
    names = tuple(declared.name(scope).split("/"))
    if parent and len(names) < len(types):
        names = (*parent.names, *names)
    if types == (_EXTENSION,) and "scope" in declared.definition:
        place = declared.place.below("scope")
        extended = str(scope.resolve(declared.definition["scope"], place))
        provider, *parts = extended.rpartition("/providers/")[2].split("/")
        is_source = [provider.lower(), *(each.lower() for each in parts[:1])] in _SOURCES
        if provider.lower() != _PROVIDER and not is_source:
            return None
        types, names = (*parts[::2], *types), (*parts[1::2], *names)
    if "providers" in types:  # the extension form without a scope: TOPIC/Microsoft.EventGrid/NAME
        at = types.index("providers")
        types, names = types[:at] + types[at + 1 :], names[:at] + names[at + 1 :]
    return resource_id(types, names)
