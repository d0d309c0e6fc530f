"""Plans the changes that bring a deployment to a configuration."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import replace
from http import HTTPStatus

from cli.configuration.changes import CONSENT, Action, Change, differences, faults_of, warnings_of
from cli.configuration.resources import (
    SUBSCRIPTIONS,
    Configuration,
    ResourceId,
    WantedResource,
    account_id,
    deployment_id,
    namespace_id,
    system_topic_id,
    topic_id,
)
from cli.deployment import Deployment
from cli.failure import CommandFailed
from cli.subscription_document import account_of, deployment_of

_ACTIONS = {"Create": Action.CREATE, "Modify": Action.UPDATE, "NoChange": Action.UNCHANGED}


def plan(
    deployment: Deployment, configuration: Configuration, *, prune: bool = False
) -> tuple[Change, ...]:
    """
    Return what has to change, in the order in which it can: parents first, deletions last.

    The deployment itself compares, secrets included, and checks; nothing is stored and no endpoint
    is asked. With *prune* what the configuration does not name is deleted.

    Raises:
        CommandFailed: the deployment does not answer, or does not know the caller.
    """
    changes: list[Change] = []
    missing: set[ResourceId] = set()
    for each in configuration.resources:
        if each.id.parent and each.id.parent.folded in missing:
            change = replace(_creation(each), is_checked=False)
        else:
            change = _compared(deployment, each)
        if change.action is Action.CREATE:
            missing.add(each.id.folded)
        changes.append(change)
    if prune:
        changes += _deletions(deployment, _named(configuration))
    return tuple(changes)


def _creation(resource: WantedResource) -> Change:
    return Change(
        action=Action.CREATE, id=resource.id, resource=resource, keys=tuple(resource.keys)
    )


def _compared(deployment: Deployment, resource: WantedResource) -> Change:
    headers = CONSENT if resource.is_consent_assumed else None
    try:
        answer = deployment.post(f"{resource.id.path}/whatIf", resource.document, headers)
        action = _ACTIONS[answer["changeType"]]
        if action is Action.CREATE:
            return _creation(resource)
        found = () if action is Action.UNCHANGED else differences(answer["before"], answer["after"])
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
        warnings=warnings_of(deployment, resource.id, answer["before"]),
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


def _named(configuration: Configuration) -> AbstractSet[ResourceId]:
    """Return the ids of all resources, and of those that they stand in."""
    named: set[ResourceId] = set()
    for each in configuration.resources:
        own: ResourceId | None = each.id.folded
        while own:
            named.add(own)
            own = own.parent
    return named


def _deletions(deployment: Deployment, named: AbstractSet[ResourceId]) -> list[Change]:
    """Return the deletions of what is not *named*, contents first."""
    return [
        Change(action=Action.DELETE, id=each)
        for each in reversed(list(_existing(deployment)))
        if each.folded not in named
    ]


def _existing(deployment: Deployment) -> Iterator[ResourceId]:
    for name in _names(deployment, "topics"):
        yield from _with_subscriptions(deployment, topic_id(name))
    for name in _names(deployment, "systemTopics"):
        yield from _with_subscriptions(deployment, system_topic_id(name))
    for each in deployment.list(SUBSCRIPTIONS):
        if account := account_of(each["id"]):
            yield account_id(account).child(SUBSCRIPTIONS, each["name"])
        elif deployment_name := deployment_of(each["id"]):
            yield deployment_id(deployment_name).child(SUBSCRIPTIONS, each["name"])
    for name in _names(deployment, "namespaces"):
        own = namespace_id(name)
        yield own
        for inner in _names(deployment, f"{own.path}/topics"):
            yield from _with_subscriptions(deployment, own.child("topics", inner))


def _with_subscriptions(deployment: Deployment, own: ResourceId) -> Iterator[ResourceId]:
    yield own
    for name in _names(deployment, f"{own.path}/{SUBSCRIPTIONS}"):
        yield own.child(SUBSCRIPTIONS, name)


def _names(deployment: Deployment, path: str) -> list[str]:
    return [each["name"] for each in deployment.list(path)]
