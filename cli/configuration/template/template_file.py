"""Finds the topics, namespaces and event subscriptions of a template, in every form of nesting."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from threading import Lock
from typing import Any, NamedTuple

from cli.configuration.deployed import Answers
from cli.configuration.file_names import TEMPLATE
from cli.configuration.resources import (
    SENT,
    Configuration,
    ResourceId,
    Skips,
    WantedResource,
    ordered,
)
from cli.configuration.source import MAX_FAULTS, FileFaults, Place, SourceFile
from cli.configuration.template.budget import EvaluationBudget
from cli.configuration.template.declared import (
    Declared,
    DeclaredTargets,
    Module,
    OfAnotherGroup,
    declarations,
    identify,
    names_of,
    types_of,
)
from cli.configuration.template.expressions import ExpressionFault, parse
from cli.configuration.template.form import TemplateFault, check_form
from cli.configuration.template.resource_ids import ResourceGroup
from cli.configuration.template.scope import References, Scope
from cli.configuration.template.scope_functions import ALL_FUNCTIONS
from shared.arm.member_names import Names, in_documented_case

_MARKS = Names("$schema", "resources")
_SCHEMA = "deploymenttemplate.json"
_MALFORMED = (AttributeError, LookupError, TypeError, ValueError)


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
            functions=ALL_FUNCTIONS,
            targets=DeclaredTargets(declarations(resources, place), group),
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
    for name, own in names_of(parameters, known, lambda _: scope.place):
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


class _Ended(Exception):
    """Nothing more can be read."""


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
        modules: list[Module] = []
        others: list[Declared] = []
        for each in declarations(resources, place):
            with self._collecting(each, parent):
                self.budget.take(len(each.type))
                if each.is_module:
                    modules += self._modules(scope, each)
                elif not each.definition.get("existing"):
                    others.append(each)
        for each in others:
            with self._collecting(each, parent):
                self._readdeclared(scope, each, parent)
        for inner, inner_resources, inner_place in modules:
            self.read(inner, inner_resources, inner_place)

    def _modules(self, scope: Scope, declared: Declared) -> Iterator[Module]:
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

    def _readdeclared(self, scope: Scope, declared: Declared, parent: ResourceId | None) -> None:
        types = types_of(declared, parent)
        if types is None:
            self._leave_out(declared)
            return
        if scope.targets.group.folded_id != self.references.group.folded_id:
            raise OfAnotherGroup
        for turn in declared.turns(scope):
            with self._collecting(declared, parent):
                own = identify(turn, declared, types, parent)
                if own is None:
                    self._leave_out(declared)
                    return
                with self._collecting(declared, parent, own):
                    self._read_resource(turn, declared, own)

    def _read_resource(self, turn: Scope, declared: Declared, own: ResourceId) -> None:
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

    def _leave_out(self, declared: Declared, why: str = "") -> None:
        kind = declared.definition["type"]
        self.budget.take(len(kind))
        self.left_out[f"{kind}, line {declared.place.line}{why}"] = None

    @contextmanager
    def _collecting(
        self, declared: Declared, parent: ResourceId | None, own: ResourceId | None = None
    ) -> Iterator[None]:
        """Collect the faults of a resource; the others are read all the same."""
        fault = None
        try:
            yield
        except OfAnotherGroup:
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
        self, declared: Declared, parent: ResourceId | None, own: ResourceId | None
    ) -> bool:
        """Return whether what can't be read is skipped; its name may not be known."""
        if own or (parent and self._skips.covers(parent)):
            return own is None
        return self._skips.take_place(declared.place)


def _document(scope: Scope, declared: Declared, own: ResourceId) -> Mapping[str, Any]:
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
