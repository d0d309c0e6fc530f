"""What documents must respect in this deployment, whatever resource they describe."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shared.subscriptions.sections import Section

LONGEST_DOCUMENT = 32_000  # characters: one property of a table row holds 32 Ki of them


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """
    *account* is the app's own storage account, the only one that dead letters go to. *profiles*
    are the delivery profiles there are. *allow_http* lets endpoints have no TLS.
    """

    account: str
    profiles: frozenset[str]
    allow_http: bool = False


def check_size(root: Section, stored: Mapping[str, Any]) -> None:
    """Refuse what would not fit into a table row."""
    if len(json.dumps(stored)) > LONGEST_DOCUMENT:
        root.refuse("properties", f"The resource is larger than {LONGEST_DOCUMENT} characters.")
