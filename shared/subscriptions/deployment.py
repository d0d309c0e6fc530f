"""What documents must respect in this deployment, whatever resource they describe."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """
    What resources can refer to.

    *account* is the app's own storage account, the only one that dead letters go to. *profiles*
    are the delivery profiles there are. *allow_http* lets endpoints have no TLS.
    """

    account: str
    profiles: frozenset[str]
    allow_http: bool = False
