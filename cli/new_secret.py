"""Tells the secret that a deployment has made to sign deliveries."""

from __future__ import annotations

from cli.deployment import Deployment
from cli.subscription_document import secrets_of


def new_secret(deployment: Deployment, path: str) -> str:
    """Return a line with the secret of the event subscription at *path*."""
    listed = deployment.post(f"{path}/getDeliveryAttributes")["value"]
    return f"signing secret, which is not shown again: {secrets_of(listed)}"
