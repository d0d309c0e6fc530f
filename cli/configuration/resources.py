"""Defines the resources that a configuration names."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from cli.configuration.source import FileFaults, Place
from shared.arm import document_names as documents
from shared.arm.member_names import Names
from shared.nearest import did_you_mean

if TYPE_CHECKING:
    from cli.configuration.deployed import Answers

# The members of an ARM document that a PUT sends; what identifies the resource is its path.
# An identity is not sent: the deployment's own is the only one.
SENT = ("location", "tags", "sku", "kind", "properties")
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
    def title(self) -> str:
        """Kind and name, as a plan prints them."""
        return f"{self.kind} {self.name}"

    @property
    def lineage(self) -> Iterator[ResourceId]:
        """The id, and those of what the resource stands in."""
        own: ResourceId | None = self
        while own:
            yield own
            own = own.parent

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
    document: Mapping[str, Any]  # of its PUT; what `refers_to` will say is a placeholder
    # The access keys that it must have, by name.
    keys: Mapping[str, str] = field(default_factory=dict, repr=False)
    is_consent_assumed: bool = False  # its endpoint is not asked
    # The resources whose answers its document has, folded.
    refers_to: frozenset[ResourceId] = frozenset()
    # Returns its document with their answers; raises `FileFaults`.
    evaluated: Callable[[Answers], Mapping[str, Any]] | None = None
    stage: int = 0  # it comes after the resources of all stages before

    @property
    def needs(self) -> frozenset[ResourceId]:
        """The ids, folded, of what must be there before it: its parent, and what it refers to."""
        parent = self.id.folded.parent
        return self.refers_to | {parent} if parent else self.refers_to

    def with_answers(self, answers: Answers) -> WantedResource:
        """
        Return the same with what a deployment *answers* about the resources that it refers to.

        Raises:
            FileFaults: the deployment lacks one, or the document can't be evaluated with it.
        """
        return replace(self, document=self.evaluated(answers)) if self.evaluated else self


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """The resources of a file, parents first, and what the file has beside them."""

    resources: tuple[WantedResource, ...]
    left_out: tuple[str, ...] = ()
    skipped: tuple[SkippedResource, ...] = ()


class SkippedResource(NamedTuple):
    """A resource of the file that is not applied."""

    title: str  # kind and name, or where it is in the file if its name is not known
    id: ResourceId | None


class Skips:
    """The resources that are not to be applied, by the names that a plan or a fault prints."""

    def __init__(self, names: Collection[str]) -> None:
        self._unused = {name.casefold(): name for name in names}
        self._wanted = frozenset(self._unused)
        self._seen: set[str] = set()
        self.skipped: list[SkippedResource] = []

    def covers(self, own: ResourceId) -> bool:
        """Return whether a resource, or one that it stands in, is to be skipped."""
        known = [each for each in own.lineage if each.types in _KINDS]
        named = {self._is_named(name) for each in known for name in (each.name, each.title)}
        return True in named

    def take(self, own: ResourceId) -> bool:
        """Return the same, and note the resource if it is."""
        if not self.covers(own):
            return False
        self.skipped.append(SkippedResource(own.title, own))
        return True

    def take_place(self, place: Place) -> bool:
        """Return whether what has no known name is to be skipped, and note it if it is."""
        if not self._is_named(str(place)):
            return False
        if not any(each.title == str(place) for each in self.skipped):
            self.skipped.append(SkippedResource(str(place), None))
        return True

    def check(self, path: object) -> None:
        """
        Return if all names occur in the file.

        Raises:
            FileFaults: some do not.
        """
        faults = [
            f"{path}: --skip {name}: there is no such resource{did_you_mean(name, self._seen)}"
            for name in self._unused.values()
        ]
        if faults:
            raise FileFaults(*faults)

    def _is_named(self, name: str) -> bool:
        self._seen.add(name)
        self._unused.pop(name.casefold(), None)
        return name.casefold() in self._wanted


def ordered(
    resources: list[WantedResource], left_out: tuple[str, ...] = (), skips: Skips | None = None
) -> Configuration:
    """
    Return the configuration of *resources*, each after its parent and what it refers to.

    Raises:
        FileFaults: a resource is named twice, or two refer to each other.
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
    stages = _stages(first)
    staged = [replace(each, stage=stages[each.id.folded]) for each in resources]
    staged.sort(key=lambda each: (each.stage, len(each.id.types), each.id.types))
    skipped = tuple(skips.skipped) if skips else ()
    return Configuration(resources=tuple(staged), left_out=left_out, skipped=skipped)


def _stages(resources: Mapping[ResourceId, WantedResource]) -> Mapping[ResourceId, int]:
    """Return the number of each resource's stage: the length of the chain that it waits for."""
    stages = {own: len(own.types) for own in resources}
    for _ in range(len(resources) + 1):
        later = {
            own: max([stages[own], *(stages.get(each, 0) + 1 for each in wanted.needs)])
            for own, wanted in resources.items()
        }
        if later == stages:
            return stages
        stages = later
    own = max(stages, key=lambda each: stages[each])
    raise FileFaults(resources[own].place.fault("this waits for itself, by way of a reference"))
