"""Carries out the changes of a plan."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import replace
from itertools import groupby
from threading import Thread

from cli.configuration.deployed import DeploymentAnswers, ResourceAnswers
from cli.configuration.planning import CONSENT, Action, Change, faults_of, masked, warnings_of
from cli.configuration.resources import ResourceId, WantedResource
from cli.deployment import Deployment
from cli.failure import CommandFailed
from cli.subscription.document import gets_secret
from cli.subscription.stored import new_secret

_AT_ONCE = 8  # a handshake can take a minute and a half
_SETTING = "PUSHGRID_LOCAL_SHORTCUTS"  # named by a deployment that refuses fixed keys


def carry_out(
    deployment: Deployment, changes: Sequence[Change], on_change: Callable[[Change], None]
) -> None:
    """
    Carry out *changes*; call *on_change* with each when it is done, in their order.

    A change that the deployment refuses gets faults, and the others go on: only what stands in the
    refused resource, or refers to it, is not tried.

    Raises:
        CommandFailed: the deployment does not answer, or does not know the caller.
    """
    failed: dict[ResourceId, ResourceId] = {}
    answers = DeploymentAnswers(deployment)

    def carry(change: Change) -> Change:
        resource = change.resource
        if change.faults or change.action is Action.UNCHANGED:
            return change
        if resource is None:
            return _delete(deployment, change)
        for each in sorted(resource.needs & failed.keys()):
            why = f"not tried, because {failed[each].title} has faults"
            return replace(change, faults=(resource.place.fault(why),))
        own = ResourceAnswers(answers)
        return masked(_put(deployment, change, resource, own), own)

    for _, stage in groupby(changes, key=_stage):
        for done in _at_once(carry, list(stage)):
            if done.faults and done.action is Action.CREATE:
                failed[done.id.folded] = done.id
            on_change(done)


def _stage(change: Change) -> tuple[object, ...]:
    """Return what changes have in common that are made together; deletions come last."""
    if change.resource is None:
        return True, change.id.types
    return False, change.resource.stage, change.id.types


def _at_once(carry: Callable[[Change], Change], changes: Sequence[Change]) -> Iterator[Change]:
    """
    Yield the results in the order of *changes*.

    After a Ctrl-C nobody waits for what is under way, as a pool of the standard library's would.
    """
    results: list[Future[Change]] = [Future() for _ in changes]
    left = deque(zip(results, changes, strict=True))

    def work() -> None:
        with suppress(IndexError):  # none is left
            while True:
                result, change = left.popleft()
                try:
                    result.set_result(carry(change))
                except BaseException as error:  # noqa: BLE001 - raised where it is waited for
                    result.set_exception(error)

    threads = [Thread(target=work, daemon=True) for _ in changes[:_AT_ONCE]]
    try:
        for thread in threads:
            thread.start()
        yield from map(_awaited, results)
    except Exception:
        left.clear()
        for thread in threads:
            thread.join()
        raise
    finally:
        left.clear()


def _awaited(result: Future[Change]) -> Change:
    while not result.done():
        wait([result], 1.0)  # seconds: a Ctrl-C just before an endless wait would be lost
    return result.result()


def _put(
    deployment: Deployment, change: Change, resource: WantedResource, answers: ResourceAnswers
) -> Change:
    headers = CONSENT if resource.is_consent_assumed else None
    path, said = resource.id.path, change.differences
    try:
        wanted = resource.with_answers(answers).document
        has_new = gets_secret(None, wanted) and gets_secret(deployment.find(path), wanted)
        stored = deployment.put(path, wanted, headers)
        if has_new:
            said = (*said, new_secret(deployment, path))
    except CommandFailed as error:
        return replace(change, faults=faults_of(error, resource))
    warnings = warnings_of(deployment, resource.id, stored)
    done = replace(change, differences=said, warnings=warnings)
    for name in change.keys:
        done = _set_key(deployment, done, resource, name)
    return done


def _set_key(deployment: Deployment, change: Change, resource: WantedResource, name: str) -> Change:
    body = {"keyName": name, "keyValue": resource.keys[name]}
    try:
        deployment.post(f"{resource.id.path}/regenerateKey", body)
    except CommandFailed as error:
        said = tuple(fault.message for fault in error.faults)
        if any(_SETTING in each for each in said):
            return replace(change, warnings=(*change.warnings, f"keys.{name}: {said[0]}"))
        place = resource.place.below("keys", name)
        faults = faults_of(error, replace(resource, place=place))
        return replace(change, faults=(*change.faults, *faults))
    return change


def _delete(deployment: Deployment, change: Change) -> Change:
    try:
        deployment.delete(change.id.path)
    except CommandFailed as error:
        if error.status is None:
            raise
        return replace(change, faults=(f"{change.id.name}: {error.message}",))
    return change
