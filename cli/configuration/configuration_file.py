"""Reads a configuration: the project's own file, or a compiled Bicep or ARM template."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from cli.configuration.file_names import CONFIGURATION
from cli.configuration.resources import (
    SENT,
    SOURCES,
    Configuration,
    ResourceId,
    Skips,
    WantedResource,
    ordered,
)
from cli.configuration.schema import check_schema
from cli.configuration.source import FileFaults, Place, SourceFile, read_source
from cli.configuration.template.resource_ids import group_of
from cli.configuration.template.template_file import is_template, read_template
from cli.deployment import DEFAULT_SCOPE

_CHILDREN = ("topics", "eventSubscriptions")


def read_configuration(
    path: Path,
    parameters: Mapping[str, Any] | None = None,
    scope: str = DEFAULT_SCOPE,
    skip: Collection[str] = (),
    *,
    offers_options: bool = True,
) -> Configuration:
    """
    Read the topics, namespaces and event subscriptions of a file.

    *parameters* are a template's, *scope* is the ARM id of the resource group that it is read for,
    *skip* names the resources that are left alone, with what is in them. *offers_options*: faults
    name options of ``apply`` as remedies.

    Raises:
        FileFaults: all faults that were found, each with file, line and path.
    """
    try:
        return _read(path, parameters or {}, scope, Skips(skip), offers_options)
    except MemoryError:
        raise FileFaults(f"{path}: there is too little memory to read it") from None


def _read(
    path: Path, parameters: Mapping[str, Any], scope: str, skips: Skips, offers_options: bool
) -> Configuration:
    source = read_source(path)
    if is_template(source.value):
        found = read_template(source, parameters, group_of(scope), skips, offers_options)
    elif fault := _fault_of_template(source, offers_options):
        raise FileFaults(fault)
    elif parameters:
        raise FileFaults(f"{path}: only templates have parameters")
    else:
        source = source.in_documented_case(CONFIGURATION)
        check_schema(source)
        every = _resources(source.value, source.root)
        found = ordered([each for each in every if not skips.take(each.id)], skips=skips)
    skips.check(path)
    return found


def _fault_of_template(source: SourceFile, offers_options: bool) -> str | None:
    """Return what is wrong with a file of ARM that is not a template, if it is one."""
    members = source.value if isinstance(source.value, Mapping) else {}
    folded = {name.lower(): value for name, value in members.items()}
    if "deploymentparameters.json" in str(folded.get("$schema")).lower():
        this = ", and this by --parameters" if offers_options else ""
        return source.root.fault(f"these are parameters: name the template{this}")
    if "resources" in folded:
        place = source.root.below("$schema")
        return place.fault("a template needs this; it ends with deploymentTemplate.json#")
    return None


def _resources(document: Mapping[str, Any], root: Place) -> Iterator[WantedResource]:
    for member in ("topics", "systemTopics", *SOURCES, "namespaces"):
        read = _contents if member in SOURCES else _resource
        for name, inner in (document.get(member) or {}).items():
            own = ResourceId((member,), (name,))
            yield from read(own, inner or {}, root.below(member, name))


def _resource(
    own: ResourceId, document: Mapping[str, Any], place: Place
) -> Iterator[WantedResource]:
    yield WantedResource(
        id=own,
        place=place,
        document={name: document[name] for name in SENT if name in document},
        keys=document.get("keys") or {},
        is_consent_assumed=bool(document.get("consent")),
    )
    yield from _contents(own, document, place)


def _contents(
    own: ResourceId, document: Mapping[str, Any], place: Place
) -> Iterator[WantedResource]:
    for member in _CHILDREN:
        for name, inner in (document.get(member) or {}).items():
            yield from _resource(own.child(member, name), inner or {}, place.below(member, name))
