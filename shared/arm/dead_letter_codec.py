"""Reads ``deadLetterDestination``: a blob container in the app's own storage account."""

from __future__ import annotations

import re
from typing import Any

from shared.arm.deployment import Deployment, ProfileLimits
from shared.arm.sections import Section

_ACCOUNT = re.compile(r"[a-z0-9]{3,24}")
_CONTAINER = re.compile(r"(?=.{3,63}\Z)[a-z0-9]+(-[a-z0-9]+)*")
# Containers of the app and its host in the same account.
_OWN_CONTAINER = re.compile(r"payloads|poison|azure-webjobs-.*|app-package.*|\$.*")


def parse_dead_letter(
    holder: Section, deployment: Deployment, limits: ProfileLimits
) -> dict[str, Any] | None:
    """Read the ``deadLetterDestination`` of *holder*; ``None`` if there is none."""
    if not holder.has("deadLetterDestination"):
        return None
    if not limits.has_dead_letters:
        message = f"Dead-lettering is not available{limits.under_profile}."
        holder.refuse("deadLetterDestination", message)
    section = holder.section("deadLetterDestination")
    section.required_choice("endpointType", ("StorageBlob",))
    blob = section.section("properties")
    resource_id = blob.required_text("resourceId")
    container = blob.required_text("blobContainerName")
    if resource_id is not None:
        _check_account(blob, resource_id.rpartition("/")[2], deployment.account)
    if container is not None:
        _check_container(blob, container)
    return {
        "endpointType": "StorageBlob",
        "properties": {"resourceId": resource_id, "blobContainerName": container},
    }


def _check_account(blob: Section, account: str, own: str) -> None:
    if not _ACCOUNT.fullmatch(account):
        blob.refuse("resourceId", "resourceId must be the ARM id of a storage account.")
    elif account != own:
        blob.refuse(
            "resourceId",
            f"Dead letters can only go to the app's own storage account, not to '{account}'.",
        )


def _check_container(blob: Section, container: str) -> None:
    if _OWN_CONTAINER.fullmatch(container):
        blob.refuse("blobContainerName", f"The container '{container}' is reserved for the app.")
    elif not _CONTAINER.fullmatch(container):
        blob.refuse(
            "blobContainerName",
            "blobContainerName must be 3-63 lower-case letters, digits and single hyphens, "
            "and must begin and end with a letter or digit.",
        )
