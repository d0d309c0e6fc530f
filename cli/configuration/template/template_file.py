"""Finds the topics, namespaces and event subscriptions of a template, in every form of nesting."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from threading import Lock
from typing import Any, NamedTuple

from cli.configuration.deployed import Answers
from cli.configuration.file_names import TEMPLATE
from cli.configuration.resources import (
    SENT,
    SOURCES,
    Configuration,
    ResourceId,
    Skips,
    WantedResource,
    ordered,
    resource_id,
)
from cli.configuration.source import MAX_FAULTS, FileFaults, Place, SourceFile
from cli.configuration.template.expressions import ExpressionFault, parse
from cli.configuration.template.resource_ids import ResourceGroup
from cli.configuration.template.scope import (
    EvaluationBudget,
    References,
    Scope,
    Targets,
    TemplateFault,
    check_form,
    object_at,
    required,
)
from shared.arm.member_names import Names, in_documented_case
from shared.nearest import did_you_mean

_MARKS = Names("$schema", "resources")
_SCHEMA = "deploymenttemplate.json"
_PROVIDER = "microsoft.eventgrid"
_SOURCES = [[one.lower(), kind.lower()] for kind, one in SOURCES.items()]  # of extensions
_MODULE = "microsoft.resources/deployments"
_MALFORMED = (AttributeError, LookupError, TypeError, ValueError)
_EXTENSION = "eventsubscriptions"
_PROVIDERS = re.compile("/providers/", re.IGNORECASE)
_VALUE, _REFERENCE = "value", "reference"  # of a module's parameter


def is_template(value: Any) -> bool:
    """Tell whether the value of a file is a template, compiled from Bicep or written by hand."""
    if not isinstance(value, Mapping):
        return False
    known, _ = in_documented_case(value, _MARKS)
    return _SCHEMA in str(known.get("$schema")).lower() and "resources" in known


def read_template(
    source: SourceFile,
    parameters: Mapping[str, Any],
    group: ResourceGroup,
    skips: Skips,
    offers_options: bool,
) -> Configuration:
    """
    Read a template with its *parameters*, as for the resource *group*, but for what *skips* names.

    *offers_options*: faults name options of ``apply`` as remedies.

    Raises:
        FileFaults: all faults, each with its line.
    """
    source = source.in_documented_case(TEMPLATE)
    reader = _Reader(group, skips, offers_options)
    parse.cache_clear()  # a process may read one version of a file after the other
    try:
        check_form(source.value, source.root)
        resources, place = source.value["resources"], source.root.below("resources")
        scope = Scope(
            template=source.value,
            place=source.root,
            group=group,
            budget=reader.budget,
            targets=_Targets(_declared(resources, place), group),
            references=reader.references,
            offers_options=offers_options,
            now=datetime.now(UTC),
            deployment_name=lambda: "local",
        )
        scope = replace(scope, given=_given(scope, parameters))
        reader.read(scope, resources, place)
    except TemplateFault as fault:
        reader.faults.append(str(fault))
    except ExpressionFault as fault:
        reader.faults.append(source.root.fault(str(fault)))
    except _Ended:
        pass
    except _MALFORMED:
        reader.faults.append(source.root.fault("this is not the form of a template"))
    if reader.faults:
        raise FileFaults(*reader.faults)
    return ordered(reader.resources, tuple(reader.left_out), skips)


class KeyVaultSecret(NamedTuple):
    """A parameter whose value is in a key vault: it must not be used."""

    place: Place  # in the parameter file

    def __call__(self) -> Any:
        """Return nothing: raise a `TemplateFault`."""
        name = self.place.members[-1]
        raise TemplateFault(self.place.fault(f"key vaults are not read: use --parameter {name}=…"))


def _given(scope: Scope, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of parameters by folded name; texts are read as their type says."""
    known = scope.template.get("parameters") or {}
    given = {}
    for name, own in _names_of(parameters, known, lambda _: scope.place):
        value = parameters[name]
        place = scope.place.below("parameters", own)
        if isinstance(value, KeyVaultSecret):
            given[own.casefold()] = value
            continue
        try:
            is_text = isinstance(value, str)
            read = scope.types.value_of_text(value, known[own]) if is_text else value
        except ValueError as error:
            raise TemplateFault(place.fault(str(error))) from None
        if read is not None or known[own].get("nullable"):
            given[own.casefold()] = scope.checked(read, known[own], place)
    return given


def _names_of(
    given: Iterable[str], known: Iterable[str], at: Callable[[str], Place]
) -> Iterator[tuple[str, str]]:
    """Yield the names of *given* parameters, and how the template that has them writes them."""
    folded = {name.casefold(): name for name in known}
    for name in given:
        if name.casefold() not in folded:
            near = did_you_mean(name, folded.values())
            raise TemplateFault(at(name).fault(f"there is no parameter '{name}'{near}"))
        yield name, folded[name.casefold()]


class _Ended(Exception):
    """Nothing more can be read."""


class _Elsewhere(Exception):
    """A resource is not in the resource group that the template is read for."""


_Module = tuple[Scope, Any, Place]  # with its resources, and where they are


class _Declared(NamedTuple):
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
        return any(each.is_of_event_grid for each in _declared(template.get("resources"), place))

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

    def module(self, scope: Scope) -> _Module:
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
                targets=_Targets(_declared(resources, resources_at), group),
                deployment_name=partial(self.name, scope),
                given=_arguments(scope, properties, template, place),
                parameters={},
                copies={},
                locals={},
                open=set(),
            )
        else:
            outputs = {"outputs": template.get("outputs") or {}}
            known = _Targets(_declared(resources, resources_at), group, scope.targets)
            inner = replace(scope, template={**scope.template, **outputs}, targets=known)
        return inner, resources, resources_at


_ModuleName = tuple[str | None, str]  # the folded id of its group, and its folded name
_Turn = tuple[_Declared, Scope]


class _Targets:
    """The modules and resources of a template that expressions can name."""

    def __init__(
        self, declared: list[_Declared], group: ResourceGroup, around: Targets | None = None
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

    def _named(self, scope: Scope, modules: list[_Declared]) -> Mapping[_ModuleName, _Turn]:
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

    def _module(self, declared: _Declared, turn: Scope) -> Scope:
        own = (declared.place.members, *turn.copies.items())
        if own not in self._modules:
            self._modules[own], _, _ = declared.module(turn)
        return self._modules[own]

    def resource(self, scope: Scope, name: str) -> ResourceId | None:
        symbol, index = _indexed(name)
        for each in self._declared:
            if each.symbol.casefold() == symbol and not each.is_module:
                types = _types(each, None)
                turn = _at_turn(scope, each, index)
                is_here = each.group(turn).folded_id == scope.references.group.folded_id
                with suppress(_Elsewhere):
                    return _identify(turn, each, types, None) if types and is_here else None
                return None
        return self._around.resource(scope, name) if self._around else None


def _indexed(name: str) -> tuple[str, int | None]:
    """Return a folded symbolic name, and its index if it has one: ``topics[1]``."""
    symbol, bracket, index = name.removesuffix("]").partition("[")
    return symbol.casefold(), int(index) if bracket and index.isdecimal() else None


def _at_turn(scope: Scope, declared: _Declared, index: int | None) -> Scope:
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
        for name, own in _names_of(given, known, at.below)
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


def _declared(resources: Any, place: Place) -> list[_Declared]:
    """Return the resources of a list or, in languageVersion 2.0, of an object."""
    if isinstance(resources, Mapping):
        return [_Declared(each, place.below(name), name) for name, each in resources.items()]
    if not isinstance(resources, list | None):
        raise TemplateFault(place.fault("this must be an array or an object"))
    return [_Declared(each, place.below(at), "") for at, each in enumerate(resources or ())]


class _Reader:
    """Collects the resources of a template and its modules, what is left out, and the faults."""

    def __init__(self, group: ResourceGroup, skips: Skips, offers_options: bool) -> None:
        self.budget = EvaluationBudget()
        self.references = References(group)
        self.resources: list[WantedResource] = []
        self.left_out: dict[str, None] = {}  # each once
        self.faults: list[str] = []
        self._skips = skips
        self._offers_options = offers_options
        self._lock = Lock()

    def read(
        self, scope: Scope, resources: Any, place: Place, parent: ResourceId | None = None
    ) -> None:
        """Read *resources*; *parent* is the resource that they are nested in."""
        modules: list[_Module] = []
        others: list[_Declared] = []
        for each in _declared(resources, place):
            with self._collecting(each, parent):
                self.budget.take(len(each.type))
                if each.is_module:
                    modules += self._modules(scope, each)
                elif not each.definition.get("existing"):
                    others.append(each)
        for each in others:
            with self._collecting(each, parent):
                self._read_declared(scope, each, parent)
        for inner, inner_resources, inner_place in modules:
            self.read(inner, inner_resources, inner_place)

    def _modules(self, scope: Scope, declared: _Declared) -> Iterator[_Module]:
        """Yield what a module deploys, in each turn of its loop."""
        if not declared.has_template:
            self._leave_out(declared)
            return
        try:
            for turn in declared.turns(scope):
                yield declared.module(turn)
        except (TemplateFault, ExpressionFault):
            if declared.is_of_event_grid or self.budget.is_spent:
                raise
            self._leave_out(declared)

    def _read_declared(self, scope: Scope, declared: _Declared, parent: ResourceId | None) -> None:
        types = _types(declared, parent)
        if types is None:
            self._leave_out(declared)
            return
        if scope.targets.group.folded_id != self.references.group.folded_id:
            raise _Elsewhere
        for turn in declared.turns(scope):
            with self._collecting(declared, parent):
                own = _identify(turn, declared, types, parent)
                if own is None:
                    self._leave_out(declared)
                    return
                with self._collecting(declared, parent, own):
                    self._read_resource(turn, declared, own)

    def _read_resource(self, turn: Scope, declared: _Declared, own: ResourceId) -> None:
        place = declared.place
        if not self._skips.take(own):
            evaluate = partial(_document, turn, declared, own)
            document, refers_to = self.references.collected(evaluate)
            self.resources.append(
                WantedResource(
                    id=own,
                    place=place,
                    document=document,
                    refers_to=refers_to,
                    evaluated=partial(self._evaluated, evaluate, own) if refers_to else None,
                )
            )
        inner = declared.definition.get("resources")
        self.read(turn, inner, place.below("resources"), own)

    def _evaluated(
        self, evaluate: partial[Any], own: ResourceId, answers: Answers
    ) -> Mapping[str, Any]:
        """Return the document of a resource with the *answers* of a deployment."""
        with self._lock:
            self.budget.renew()
            self.references.answers, self.references.is_reading = answers, False
            try:
                document, _ = self.references.collected(evaluate)
            except TemplateFault as fault:
                raise FileFaults(f"{fault}{self._remedy(own.title)}") from None
        return document  # type: ignore[no-any-return]

    def _remedy(self, title: object) -> str:
        return f" (all but this: apply --skip '{title}')" if self._offers_options else ""

    def _leave_out(self, declared: _Declared, why: str = "") -> None:
        kind = declared.definition["type"]
        self.budget.take(len(kind))
        self.left_out[f"{kind}, line {declared.place.line}{why}"] = None

    @contextmanager
    def _collecting(
        self, declared: _Declared, parent: ResourceId | None, own: ResourceId | None = None
    ) -> Iterator[None]:
        """Collect the faults of a resource; the others are read all the same."""
        fault = None
        try:
            yield
        except _Elsewhere:
            self._leave_out(declared, ", of another resource group")
        except TemplateFault as error:
            fault = str(error)
        except ExpressionFault as error:
            fault = declared.place.fault(str(error))
        except _MALFORMED:
            fault = declared.place.fault("this is not the form of a resource")
        if fault and not self._is_skipped(declared, parent, own):
            self.faults.append(f"{fault}{self._remedy(own.title if own else declared.place)}")
        if self.budget.is_spent or len(self.faults) > MAX_FAULTS:
            raise _Ended

    def _is_skipped(
        self, declared: _Declared, parent: ResourceId | None, own: ResourceId | None
    ) -> bool:
        """Return whether what can't be read is skipped; its name may not be known."""
        if own or (parent and self._skips.covers(parent)):
            return own is None
        return self._skips.take_place(declared.place)


def _document(scope: Scope, declared: _Declared, own: ResourceId) -> Mapping[str, Any]:
    """
    Return the document of a resource.

    Raises:
        TemplateFault: it can't be evaluated.
    """
    place, found = declared.place, {}
    if "onlyIfNotExists" in (declared.definition.get("@options") or ()):
        wrong = "onlyIfNotExists is not available here: remove @onlyIfNotExists()"
        raise TemplateFault(place.below("@options").fault(wrong))
    for name in SENT:
        if name in declared.definition:
            found[name] = scope.resolve(declared.definition[name], place.below(name))
    try:
        scope.budget.hold(found)
    except ExpressionFault as fault:
        raise TemplateFault(place.fault(str(fault))) from None
    document, repeated = in_documented_case(found, own.member_names)
    for each in repeated:
        raise TemplateFault(place.fault_at(each.target, each.message))
    return document  # type: ignore[no-any-return]


def _types(declared: _Declared, parent: ResourceId | None) -> tuple[str, ...] | None:
    """Return the types of a resource below its provider; ``None``: it is of another provider."""
    provider, *types = declared.type.split("/")
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
        provider, *parts = _PROVIDERS.split(extended)[-1].split("/")
        if not extended.startswith("/") and "." not in provider:
            raise TemplateFault(place.fault("this must be the id of a resource"))
        here = f"{scope.references.group.folded_id}/"
        if extended.startswith("/") and not extended.casefold().startswith(here):
            raise _Elsewhere
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
