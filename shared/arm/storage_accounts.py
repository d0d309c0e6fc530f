"""Reads the ARM ids of storage accounts, and of the deployment."""

from __future__ import annotations

import re

from shared.events.topic import DEPLOYMENT

ACCOUNT_ID = re.compile(
    r"/subscriptions/[A-Za-z0-9-]{1,64}/resourceGroups/[-\w.()]{0,89}[-\w()]"
    r"/providers/Microsoft\.Storage/storageAccounts/(?P<name>(?-i:[a-z0-9]{3,24}))",
    re.IGNORECASE,
)
DEPLOYMENT_ID = re.compile(
    r"/subscriptions/[A-Za-z0-9-]{1,64}/resourceGroups/[-\w.()]{0,89}[-\w()]"
    rf"/providers/Pushgrid/deployments/(?-i:{DEPLOYMENT})",
    re.IGNORECASE,
)


def account_of(resource_id: str) -> str:
    """Return the account's name, the last segment of its ARM id."""
    return resource_id.rpartition("/")[2]
