"""Reads ``deadLetterDestination``: a blob container in a storage account that the app may use."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

from shared.arm.deployment_capabilities import SubscriptionRequest, under
from shared.arm.sections import Document, Section
from shared.arm.tracked_resource import ACCOUNT_ID, account_of
from shared.delivery.delivery_profile import Feature
from shared.subscriptions.subscription import DeadLetterDestination
from shared.text_faults import TextFaults, text_fault

_STORAGE_NAME = re.compile(r"(?=.{3,63}\Z)[a-z0-9]+(-[a-z0-9]+)*")
#: Follows a name that is none.
STORAGE_NAME_RULE = (
    "must be 3-63 lower-case letters, digits and single hyphens, "
    "and must begin and end with a letter or digit"
)
# Containers of the app and its host in the app's own account.
_OWN_CONTAINER = re.compile(r"payloads|poison|azure-webjobs-.*|app-package.*")
_WRONG_IDS: TextFaults = (
    (r"\s|.*\s\Z", "it has a blank or a line break before or after it"),
    (r"https?:", "it is a URL; 'az storage account show --query id' prints the id"),
    (r"[a-z0-9]{3,24}\Z", "it is a name; 'az storage account show --query id' prints the id"),
    (r"(?i:subscriptions/)", "it has no '/' before it"),
    (r"(?i:/subscriptions/.*/storageAccounts/)[a-z0-9]{3,24}/", "it goes on after the account"),
    (
        r"(?i:/subscriptions/.*/storageAccounts/)[^/]*\Z",
        "the name of an account is 3-24 small letters and digits",
    ),
)
_SYSTEM_CONTAINERS = ("$logs", "$blobchangefeed")


def parse_dead_letter(holder: Section, request: SubscriptionRequest) -> dict[str, Any] | None:
    """Read the ``deadLetterDestination`` of *holder*; ``None`` if there is none."""
    if not holder.has("deadLetterDestination"):
        return None
    deployment, profile = request.deployment, request.topic.profile
    if Feature.DEAD_LETTERS not in profile.features:
        message = f"Dead-lettering is not available{under(profile)}."
        holder.refuse("deadLetterDestination", message)
    section = holder.section("deadLetterDestination")
    section.required_choice("endpointType", ("StorageBlob",))
    blob = section.section("properties")
    resource_id = blob.required_text("resourceId")
    container = blob.required_text("blobContainerName")
    if resource_id is not None:
        check_account(
            blob, resource_id, deployment.account, deployment.known_accounts, "Dead letters"
        )
    if container is not None:
        is_own = (
            resource_id is None or account_of(resource_id) not in deployment.dead_letter_accounts
        )
        check_container(blob, "blobContainerName", container, is_own=is_own)
    return {
        "endpointType": "StorageBlob",
        "properties": {"resourceId": resource_id, "blobContainerName": container},
    }


def to_dead_letter(stored: Document | None) -> DeadLetterDestination | None:
    if stored is None:
        return None
    blob = stored["properties"]
    return DeadLetterDestination(
        container=blob["blobContainerName"], account=account_of(blob["resourceId"])
    )


def check_account(
    blob: Section, resource_id: str, own: str, known: Collection[str], what: str
) -> None:
    """Refuse a *resource_id* of none of the *known* accounts; *own* may be among them."""
    account = account_of(resource_id)
    if not ACCOUNT_ID.fullmatch(resource_id):
        why = text_fault(_WRONG_IDS, resource_id)
        blob.refuse(
            "resourceId",
            "resourceId must be the ARM id of a storage account, /subscriptions/ID/resourceGroups/"
            "GROUP/providers/Microsoft.Storage/storageAccounts/NAME"
            + (f" ({why})." if why else "."),
        )
    elif account not in known:
        where = (
            f"the app's own storage account, '{own}', or to one"
            if own in known
            else ("a storage account on Azure")
        )
        blob.refuse(
            "resourceId",
            f"{what} can only go to {where} that PUSHGRID_DEADLETTER_ACCOUNTS names, "
            f"not to '{account}'.",
        )


def is_announced(container: str) -> bool:
    """Tell whether blobs of a *container* in the app's account have events: they are of others."""
    return not _OWN_CONTAINER.fullmatch(container) and container not in _SYSTEM_CONTAINERS


def check_container(section: Section, name: str, container: str, *, is_own: bool) -> None:
    """Refuse a *container* that can't have dead letters; *is_own*: it is in the app's account."""
    if is_own and (_OWN_CONTAINER.fullmatch(container) or container.startswith("$")):
        section.refuse(name, f"The container '{container}' is reserved for the app.")
    else:
        check_storage_name(section, name, container, name)


def check_storage_name(section: Section, name: str, given: str, shown: str) -> None:
    """Refuse a name that neither a container nor a queue can have; the fault has *shown*."""
    if not is_storage_name(given):
        section.refuse(name, f"{shown} {STORAGE_NAME_RULE}.")


def is_storage_name(text: str) -> bool:
    """Tell whether a container, or a queue, can have this name."""
    return _STORAGE_NAME.fullmatch(text) is not None
