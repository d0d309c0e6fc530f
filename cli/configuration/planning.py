"""Plans the changes that bring a deployment to a configuration."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from http import HTTPStatus
from pathlib import Path
from typing import Any

from cli.configuration.deployed import DeploymentAnswers, ResourceAnswers
from cli.configuration.resources import (
    SUBSCRIPTIONS,
    Configuration,
    ResourceId,
    WantedResource,
)
from cli.configuration.source import FileFaults
from cli.deployment import Deployment
from cli.failure import CommandFailed
from cli.subscription.document import source_of
from cli.subscription.stored import consent_text
from cli.subscription.stored import warnings_of as subscription_warnings
from shared.subscriptions.diagnosis import PENDING

CONSENT = {"pushgrid-consent": "assumed"}
_NOT_COMPARED = {"provisioningState", "systemData", "warnings", PENDING}
_HANDSHAKE = "handshake"  # what its failure says
_NO_CONSENT = "(The deployment does not assume consent: PUSHGRID_LOCAL_SHORTCUTS is not set.)"
_HIDDEN = "a value that is not shown, such as a secret"


class Action(StrEnum):
    """What happens to a resource."""

    CREATE = "create"
    UPDATE = "update"
    UNCHANGED = "unchanged"
    DELETE = "delete"

    @property
    def done(self) -> str:
        """The word for it afterwards: ``created``."""
        return self.value if self is Action.UNCHANGED else f"{self.value}d"

    @property
    def planned(self) -> str:
        """The word for it before: ``to create``."""
        return self.value if self is Action.UNCHANGED else f"to {self.value}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What happens to one resource, or has happened to it."""

    action: Action
    id: ResourceId
    # For people, without secrets but the signing one, once the change is made.
    differences: tuple[str, ...] = ()
    # What the file wants; ``None``: the file does not name it.
    resource: WantedResource | None = None
    keys: tuple[str, ...] = ()  # to set
    faults: tuple[str, ...] = ()  # why the deployment refuses the resource
    warnings: tuple[str, ...] = ()  # what the deployment did not do
    is_checked: bool = True  # the deployment can't check it until what it needs exists

    @property
    def changes_something(self) -> bool:
        """Whether it is a change, and not refused."""
        return self.action is not Action.UNCHANGED and not self.faults

    @property
    def document(self) -> dict[str, Any]:
        """The change for programs."""
        return {
            "action": str(self.action),
            "kind": self.id.kind,
            "name": self.id.name,
            "differences": list(self.differences),
            "faults": list(self.faults),
            "warnings": list(self.warnings),
        }


def differences(
    before: Mapping[str, Any], after: Mapping[str, Any], *, has_keys: bool = False
) -> tuple[str, ...]:
    """Return what differs between two answers of the deployment, without values if *has_keys*."""
    found = [
        f"{path}: {'… → …' if has_keys else f'{_shown(one)} → {_shown(other)}'}"
        for path, one, other in _differences(before, after, "")
    ]
    return tuple(found) or (_HIDDEN,)


def faults_of(error: CommandFailed, resource: WantedResource) -> tuple[str, ...]:
    """
    Return the faults that the deployment found in a *resource*, with their lines.

    Raises:
        CommandFailed: the *error* itself, if it is not the resource's.
    """
    if isinstance(error, FileFaults):
        return tuple(error.message.splitlines())
    if error.status is None or error.status in {401, 403}:
        raise error
    if resource.is_consent_assumed and _HANDSHAKE in error.message:
        return (resource.place.fault(f"{error.message} {_NO_CONSENT}"),)
    if not error.faults:
        return (resource.place.fault(error.message),)
    return tuple(resource.place.fault_at(fault.target, fault.message) for fault in error.faults)


def warnings_of(
    deployment: Deployment, own: ResourceId, answer: Mapping[str, Any]
) -> tuple[str, ...]:
    """Return what people should know about a resource that is stored."""
    if own.types[-1] != SUBSCRIPTIONS:
        return ()
    consent = consent_text(answer)
    return (*([consent] if consent else []), *subscription_warnings(deployment, own.path, answer))


def _differences(before: Any, after: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for name in dict.fromkeys((*before, *after)):
            if name not in _NOT_COMPARED:
                inner = f"{path}.{name}" if path else name
                yield from _differences(before.get(name), after.get(name), inner)
    elif before != after:
        yield path, before, after


def _shown(value: Any) -> str:
    return "nothing" if value is None else json.dumps(_written(value), ensure_ascii=False)


def _written(value: Any) -> Any:
    """Return *value* as people write it: a deployment answers 10.0 to a filter's 10."""
    match value:
        case float() if value.is_integer():
            return int(value)
        case Mapping():
            return {name: _written(each) for name, each in value.items()}
        case list():
            return [_written(each) for each in value]
    return value


_ACTIONS = {"Create": Action.CREATE, "Modify": Action.UPDATE, "NoChange": Action.UNCHANGED}


def plan(
    deployment: Deployment, configuration: Configuration, *, prune: bool = False
) -> tuple[Change, ...]:
    """
    Return what has to change, in the order in which it can: parents first, deletions last.

    The deployment itself compares, secrets included, and checks; nothing is stored and no endpoint
    is asked. With *prune* what the configuration does not name is deleted.

    Raises:
        FileFaults: a resource can't be evaluated with what the deployment answers, or lacks.
        CommandFailed: the deployment does not answer, or does not know the caller.
    """
    planned: list[tuple[Change, ResourceAnswers]] = []
    faults: list[str] = []
    missing: set[ResourceId] = set()
    answers = DeploymentAnswers(deployment)
    for each in configuration.resources:
        own = ResourceAnswers(answers, missing)
        try:
            wanted = each.with_answers(own)
        except FileFaults as fault:
            faults.append(fault.message)
            missing.add(each.id.folded)
            continue
        if each.needs & missing:
            is_new = bool(each.id.parent and each.id.parent.folded in missing)
            change = _unchecked(each, is_new or not _exists(deployment, each.id))
        else:
            change = _compared(deployment, each, wanted.document, own)
        if change.action is Action.CREATE:
            missing.add(each.id.folded)
        planned.append((change, own))
    if faults:
        raise FileFaults(*faults)
    changes = [masked(change, own) for change, own in planned]  # when all keys are known
    if prune:
        changes += _deletions(deployment, configuration)
    return tuple(changes)


def refuse_to_delete_all(file: Path, configuration: Configuration) -> None:
    """
    Refuse to delete what a configuration that names nothing does not name.

    Raises:
        FileFaults: it names nothing: its *file* was cut off, or is another one.
    """
    if not (configuration.resources or configuration.skipped):
        raise FileFaults(
            f"{file}: it names no resource, so --prune would delete everything: name what stays, "
            "or delete with 'pushgrid topic delete'"
        )


def _unchecked(resource: WantedResource, is_new: bool) -> Change:
    action = Action.CREATE if is_new else Action.UPDATE
    return replace(_creation(resource), action=action, is_checked=False)


def masked(change: Change, answers: ResourceAnswers) -> Change:
    """Return *change* without the keys that its resource may hold."""
    known = frozenset(_texts(change.resource.document)) if change.resource else frozenset()

    def shown(lines: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(answers.without_keys(each, known) for each in lines)

    return replace(
        change,
        differences=shown(change.differences),
        faults=shown(change.faults),
        warnings=shown(change.warnings),
    )


def _texts(value: Any) -> Iterator[str]:
    """Yield the texts of a value, without the names of its members."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list):
        for each in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(each)


def _creation(resource: WantedResource) -> Change:
    return Change(
        action=Action.CREATE, id=resource.id, resource=resource, keys=tuple(resource.keys)
    )


def _compared(
    deployment: Deployment,
    resource: WantedResource,
    wanted: Mapping[str, Any],
    answers: ResourceAnswers,
) -> Change:
    headers = CONSENT if resource.is_consent_assumed else None
    try:
        answer = deployment.post(f"{resource.id.path}/whatIf", wanted, headers)
        action = _ACTIONS[answer["changeType"]]
        own = answer["after"].get("warnings", ())
        if action is Action.CREATE:
            return replace(_creation(resource), warnings=tuple(own))
        before, after = answer["before"], answer["after"]
        is_same = action is Action.UNCHANGED
        found = () if is_same else differences(before, after, has_keys=answers.has_keys)
        keys = _differing_keys(deployment, resource)
    except CommandFailed as error:
        faults = faults_of(error, resource)
        action = Action.UPDATE if _exists(deployment, resource.id) else Action.CREATE
        return Change(action=action, id=resource.id, resource=resource, faults=faults)
    return Change(
        action=Action.UPDATE if keys else action,
        id=resource.id,
        differences=(*found, *(f"keys.{name}: the one in the file" for name in keys)),
        resource=resource,
        keys=keys,
        warnings=warnings_of(deployment, resource.id, {**before, "warnings": own}),
    )


def _exists(deployment: Deployment, own: ResourceId) -> bool:
    try:
        return deployment.has(own.path)
    except CommandFailed as error:
        if error.status != HTTPStatus.BAD_REQUEST:  # of a storage account that it does not know
            raise
        return False


def _differing_keys(deployment: Deployment, resource: WantedResource) -> tuple[str, ...]:
    if not resource.keys:
        return ()
    known = deployment.keys(resource.id.path, None)
    return tuple(name for name, key in resource.keys.items() if known.get(name) != key)


def _deletions(deployment: Deployment, configuration: Configuration) -> list[Change]:
    """
    Return the deletions of what *configuration* does not name, contents first.

    What it skips is kept, with what is in it, as is that in which something named stands.
    """
    named = {own.folded for each in configuration.resources for own in each.id.lineage}
    skipped = {each.id.folded for each in configuration.skipped if each.id}
    named |= {own.folded for each in skipped for own in each.lineage}
    return [
        Change(action=Action.DELETE, id=each)
        for each in reversed(list(_existing(deployment)))
        if each.folded not in named and skipped.isdisjoint(each.folded.lineage)
    ]


def _existing(deployment: Deployment) -> Iterator[ResourceId]:
    for kind in ("topics", "systemTopics"):
        for name in _names(deployment, kind):
            yield from _with_subscriptions(deployment, ResourceId((kind,), (name,)))
    for each in deployment.list(SUBSCRIPTIONS):
        if source := source_of(each["id"]):
            kind, name = source
            yield ResourceId((kind, SUBSCRIPTIONS), (name, each["name"]))
    for name in _names(deployment, "namespaces"):
        own = ResourceId(("namespaces",), (name,))
        yield own
        for inner in _names(deployment, f"{own.path}/topics"):
            yield from _with_subscriptions(deployment, own.child("topics", inner))


def _with_subscriptions(deployment: Deployment, own: ResourceId) -> Iterator[ResourceId]:
    yield own
    for name in _names(deployment, f"{own.path}/{SUBSCRIPTIONS}"):
        yield own.child(SUBSCRIPTIONS, name)


def _names(deployment: Deployment, path: str) -> list[str]:
    return [each["name"] for each in deployment.list(path)]
