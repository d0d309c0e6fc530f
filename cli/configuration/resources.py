"""Defines the resources that a configuration names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import quote

from cli.configuration.source import FileFaults, Place
from shared.arm import document_names as documents
from shared.arm.member_names import Names

# The members of an ARM document that a PUT sends; what identifies the resource is its path.
SENT = ("location", "tags", "identity", "sku", "kind", "properties")
_TOPICS, _NAMESPACES, SUBSCRIPTIONS = "topics", "namespaces", "eventSubscriptions"
_SYSTEM_TOPICS, _ACCOUNTS, _DEPLOYMENTS = "systemTopics", "storageAccounts", "deployments"
SOURCES = {_ACCOUNTS: "Microsoft.Storage", _DEPLOYMENTS: "Pushgrid"}  # and their providers
_KINDS = {
    (_TOPICS,): "topic",
    (_SYSTEM_TOPICS,): "system topic",
    (_NAMESPACES,): "namespace",
    (_NAMESPACES, _TOPICS): "namespace topic",
    (_TOPICS, SUBSCRIPTIONS): "event subscription",
    (_SYSTEM_TOPICS, SUBSCRIPTIONS): "event subscription of system topic",
    (_ACCOUNTS, SUBSCRIPTIONS): "event subscription",
    (_DEPLOYMENTS, SUBSCRIPTIONS): "event subscription",
    (_NAMESPACES, _TOPICS, SUBSCRIPTIONS): "event subscription",
}


_NAMES = {
    "topic": documents.TOPIC,
    "system topic": documents.SYSTEM_TOPIC,
    "namespace": documents.NAMESPACE,
    "namespace topic": documents.NAMESPACE_TOPIC,
}


class ResourceId(NamedTuple):
    """
    Identifies a resource of Microsoft.EventGrid: ``("topics", "eventSubscriptions")``, names.

    `SOURCES` are of other providers: only their event subscriptions are resources here.
    """

    types: tuple[str, ...]
    names: tuple[str, ...]

    @property
    def kind(self) -> str:
        return _KINDS[self.types]

    @property
    def member_names(self) -> Names:
        """What the members of its document are called."""
        of_namespace = self.types[0] == _NAMESPACES
        subscription = documents.NAMESPACE_SUBSCRIPTION if of_namespace else documents.SUBSCRIPTION
        return _NAMES.get(self.kind, subscription)

    @property
    def name(self) -> str:
        """The name for people: ``orders``, ``shop.orders``, ``orders/crm``, ``system-acct/crm``."""
        names = list(self.names)
        if self.types[:2] == (_NAMESPACES, _TOPICS):
            names[:2] = [".".join(names[:2])]
        if self.types[0] in SOURCES:
            names[0] = f"system-{names[0]}"
        return "/".join(names)

    @property
    def path(self) -> str:
        """The ARM path below the provider."""
        pairs = zip(self.types, self.names, strict=True)
        first, *inner = (f"{kind}/{quote(name, safe='')}" for kind, name in pairs)
        if provider := SOURCES.get(self.types[0]):
            first = f"{provider}/{first}/providers/Microsoft.EventGrid"
        return "/".join((first, *inner))

    @property
    def parent(self) -> ResourceId | None:
        return ResourceId(self.types[:-1], self.names[:-1]) if self.types[1:] else None

    @property
    def folded(self) -> ResourceId:
        """The id to compare with: names ignore case."""
        return ResourceId(self.types, tuple(name.casefold() for name in self.names))

    def child(self, kind: str, name: str) -> ResourceId:
        return ResourceId((*self.types, kind), (*self.names, name))


def resource_id(types: tuple[str, ...], names: tuple[str, ...]) -> ResourceId | None:
    """Return the id of a resource, whatever the case of its *types*; ``None``: of no known kind."""
    wanted = tuple(each.casefold() for each in types)
    for known in _KINDS:
        if tuple(each.casefold() for each in known) == wanted and len(names) == len(known):
            return ResourceId(known, names)
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedResource:
    """A resource as the file wants it."""

    id: ResourceId
    place: Place
    document: Mapping[str, Any]  # of its PUT
    # The access keys that it must have, by name.
    keys: Mapping[str, str] = field(default_factory=dict, repr=False)
    is_consent_assumed: bool = False  # its endpoint is not asked


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """The resources of a file, parents first, and what the file has beside them."""

    resources: tuple[WantedResource, ...]
    left_out: tuple[str, ...] = ()


def ordered(resources: list[WantedResource], left_out: tuple[str, ...] = ()) -> Configuration:
    """
    Return the configuration of *resources*, parents first.

    Raises:
        FileFaults: a resource is named twice.
    """
    first: dict[ResourceId, WantedResource] = {}
    faults = []
    for each in resources:
        known = first.setdefault(each.id.folded, each)
        if known is not each:
            faults.append(
                each.place.fault(f"{each.id.name} is already defined on line {known.place.line}")
            )
    if faults:
        raise FileFaults(*faults)
    parents_first = sorted(resources, key=lambda each: (len(each.id.types), each.id.types))
    return Configuration(resources=tuple(parents_first), left_out=left_out)
