"""`pushgrid subscription`: manages event subscriptions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import click

from cli.deleting import Doomed, asks_first, delete
from cli.deployment import Deployment, subscription_path
from cli.failure import REFUSED, CommandFailed
from cli.options import names_subscription, prints_found
from cli.output import moment, print_table
from cli.program import CommandGroup
from cli.status import Hold, hold_text
from cli.subscription.actions import ACTIONS
from cli.subscription.document import (
    SubscriptionOptions,
    changes,
    destination_of,
    gets_secret,
    subscription_document,
    topic_of,
)
from cli.subscription.options import FILTERS, describes_subscription, told_by_options
from cli.subscription.stored import asking, consent_text, new_secret, warnings_of
from cli.terminal import Found, printable, say


@click.group("subscription", cls=CommandGroup)
def subscription() -> None:
    """
    Manage event subscriptions.

    A namespace topic is written NAMESPACE.TOPIC, a storage account system-ACCOUNT, and a system
    topic over one systemTopics/NAME.
    """


for action in ACTIONS:
    subscription.add_command(action)


@subscription.command("list")
@click.option("--topic", "-t", help="Topic, NAMESPACE.TOPIC, system-ACCOUNT or systemTopics/NAME.")
@prints_found
def list_subscriptions(deployment: Deployment, topic: str | None) -> Found:
    """
    List event subscriptions.

    Without --topic, those of all custom topics, storage accounts and system topics.
    """
    system_topics = deployment.system_topics()
    if topic:
        found = deployment.subscriptions(topic)
    else:
        custom = deployment.list("eventSubscriptions")
        found = [*custom, *deployment.subscriptions(*system_topics)]

    def show() -> None:
        holds = _read_holds(deployment)
        print_table(
            [_row(each, holds, system_topics) for each in found],
            "There are no event subscriptions. Create one with 'pushgrid subscription create'.",
        )

    return Found(found, show)


@subscription.command("show")
@names_subscription
@prints_found
def show(deployment: Deployment, topic: str, name: str) -> Found:
    """
    Show the ARM document of an event subscription.

    A pause, a hold, or a consent that is missing is reported on standard error.
    """
    document = deployment.get(subscription_path(topic, name))
    if hold := _hold(document, _read_holds(deployment), deployment.system_topics()):
        say(hold_text(hold), err=True)
    if pending := consent_text(document):
        say(pending, err=True)
    return Found(document)


@subscription.command("create", epilog=FILTERS)
@names_subscription
@describes_subscription
@click.option(
    "--replace",
    is_flag=True,
    help="Replace the one of this name, and all of its settings; 'update' changes single ones.",
)
@prints_found
def create(
    deployment: Deployment,
    topic: str,
    name: str,
    show_json: bool,
    replace: bool,
    **given: Any,
) -> Found:
    """
    Create an event subscription.

    The endpoint must accept the validation handshake; 'pushgrid listen' runs one that does.
    """
    if not given["endpoint"] and not given["queue"]:
        raise click.UsageError("Missing option '--endpoint' or '--queue'.")
    _refuse_empty(given)
    given["sign"] = given["sign"] or None  # there is nothing to end
    body = _document(topic, given, deployment, {})
    if show_json:
        return Found(body)
    path = subscription_path(topic, name)
    before = deployment.find(path)
    if before is not None and not replace:
        raise CommandFailed(
            f"there is already an event subscription '{name}' of '{topic}': change it with "
            "'pushgrid subscription update', or add --replace",
            REFUSED,
        )
    with told_by_options(body), asking(deployment, given["endpoint"]) as asked:
        made = asked.put(path, body)
    _tell_secret_and_warnings(deployment, path, before, body, made)
    state = made["properties"].get("provisioningState")
    verb = "created" if before is None else "replaced"
    lines = [f"{verb} event subscription {name} of {topic}: {state}"]
    lines += _differences((before or made)["properties"], made["properties"])
    lines += filter(None, [consent_text(made), _queue_text(topic, name, given)])
    return Found(made, "\n  ".join(lines))


@subscription.command("update", epilog=FILTERS)
@names_subscription
@describes_subscription
@prints_found
def update(deployment: Deployment, topic: str, name: str, show_json: bool, **given: Any) -> Found:
    """
    Change an event subscription; what is not given stays as it is.

    --event-types, --filter and --label replace the existing ones. A header replaces the one of its
    name. An empty value removes: --filter '', --dead-letter-container '', --header NAME=.
    'rotate' changes the secret that signs deliveries without a delivery refused.
    """
    path = subscription_path(topic, name)
    if all(each is None or each == () for each in given.values()):
        raise CommandFailed("nothing to change: see 'pushgrid subscription update --help'")
    if "" in {given["endpoint"], given["queue"]}:
        raise click.UsageError("--endpoint, --queue: an event subscription needs one of them.")
    before = deployment.get(path)["properties"]
    wanted = _document(topic, given, deployment, before)
    body = changes(wanted["properties"], before)
    if "." in topic:
        body = {"properties": body}
    if show_json:
        return Found(body)
    with told_by_options(body), asking(deployment, given["endpoint"]) as asked:
        changed = asked.patch(path, body)
    _tell_secret_and_warnings(deployment, path, {"properties": before}, wanted, changed)
    lines = [f"updated event subscription {name} of {topic}"]
    lines += _differences(before, changed["properties"])
    lines += filter(None, [consent_text(changed), _queue_text(topic, name, given)])
    return Found(changed, "\n  ".join(lines))


@subscription.command("delete")
@names_subscription
@asks_first
@prints_found
def delete_subscription(deployment: Deployment, topic: str, name: str, yes: bool) -> Found:
    """Delete an event subscription; its waiting events are dropped."""
    doomed = Doomed("event subscription", name, subscription_path(topic, name), topic)
    return delete(deployment, doomed, lambda: [(topic, name)], yes=yes)


def _queue_text(topic: str, name: str, given: Mapping[str, Any]) -> str | None:
    """Say that a queue has to be there, if one is given: the API does not look."""
    if not given["queue"]:
        return None
    test = f"pushgrid subscription test {name} --topic {topic}"
    return f"the queue {given['queue']} must exist: '{test}' puts a message there, or says why not"


def _refuse_empty(given: Mapping[str, Any]) -> None:
    for option in click.get_current_context().command.params:
        if _is_empty(given.get(option.name or "")):
            raise click.UsageError(f"{option.opts[0]}: an empty value removes; 'update' takes it.")


def _is_empty(value: object) -> bool:
    return value == "" or (isinstance(value, tuple) and value != () and not any(value))


def _differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> Sequence[str]:
    from cli.configuration.planning import differences  # which takes long to load

    return differences(before, after) if before != after else ()


def _tell_secret_and_warnings(
    deployment: Deployment,
    path: str,
    before: Mapping[str, Any] | None,
    wanted: Mapping[str, Any],
    stored: Mapping[str, Any],
) -> None:
    if gets_secret(before, wanted):
        say(new_secret(deployment, path), err=True)
    for warning in warnings_of(deployment, path, stored):
        say(f"warning: {printable(warning)}", err=True, colour="yellow")


def _document(
    topic: str,
    given: dict[str, Any],
    deployment: Deployment,
    before: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the document that the options make; accounts that *before* names stay."""
    has_account = given["account"] or destination_of(before, "deadLetterDestination")
    if given["dead_letter_container"] and not has_account:
        given["account"] = deployment.storage_account()
    is_queue = "queueName" in destination_of(before).get("properties", {})
    if given["queue"] and not (given["queue_account"] or is_queue):
        given["queue_account"] = deployment.storage_account()
    options = SubscriptionOptions(**given)
    try:
        built = subscription_document(topic, options)
    except ValueError as error:
        raise CommandFailed(str(error)) from None
    if not (options.endpoint or options.queue):
        found = (destination_of(before), destination_of(built["properties"]))
        known, wanted = (each.get("endpointType") for each in found)
        if known and wanted and known != wanted:
            raise CommandFailed(f"its destination is a {known}, which takes no such option")
    if options.endpoint and "://" not in options.endpoint:
        raise CommandFailed(
            f"--endpoint has no scheme: write http://{options.endpoint} or https://…"
        )
    return built


def _read_holds(deployment: Deployment) -> Mapping[tuple[str, str], Hold]:
    """Return what is paused or held, by topic and event subscription in lower case."""
    found = deployment.get("holds")["value"]
    return {(each["topic"].lower(), each["subscription"].lower()): each for each in found}


def _hold(
    document: Mapping[str, Any],
    holds: Mapping[tuple[str, str], Hold],
    system_topics: Mapping[str, str],
) -> Hold | None:
    """Return the hold of a subscription; that of a system topic's is below its account."""
    topic = topic_of(document["id"])
    return holds.get((system_topics.get(topic, topic).lower(), document["name"].lower()))


def _row(
    document: Mapping[str, Any],
    holds: Mapping[tuple[str, str], Hold],
    system_topics: Mapping[str, str],
) -> dict[str, object]:
    properties = document["properties"]
    target = destination_of(properties).get("properties") or {}
    hold = _hold(document, holds, system_topics)
    return {
        "TOPIC": topic_of(document["id"]),
        "NAME": document["name"],
        "ENDPOINT": target.get("endpointBaseUrl") or _queue(target),
        "BATCH": target.get("maxEventsPerBatch"),
        "SCHEMA": properties.get("eventDeliverySchema"),
        "STATE": _expired(properties) or properties.get("provisioningState"),
        "HELD": hold and hold_text(hold),
    }


def _expired(properties: Mapping[str, Any]) -> str | None:
    at = properties.get("expirationTimeUtc")
    if at is None or datetime.fromisoformat(at) > datetime.now(UTC):
        return None
    return f"expired at {moment(at)}"


def _queue(target: Mapping[str, Any]) -> str | None:
    account = str(target.get("resourceId")).rpartition("/")[2]
    return f"queue {account}/{target['queueName']}" if "queueName" in target else None
