"""
Names the project's URLs in the metadata of its distributions.

They are those of the repository whose hosted CI builds them, which sets `GITHUB_SERVER_URL` and
`GITHUB_REPOSITORY`. A build elsewhere knows no repository and names none.
"""

from __future__ import annotations

import os
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_PAGES = {
    "Homepage": "",
    "Documentation": "/tree/HEAD/docs",
    "Changelog": "/blob/HEAD/CHANGELOG.md",
    "Security": "/security/policy",
    "Issues": "/issues",
}


class ProjectUrls(MetadataHookInterface):
    """Adds `urls` to the metadata."""

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the URLs; *metadata* is the table `project`."""
        server, name = (os.environ.get(f"GITHUB_{each}") for each in ("SERVER_URL", "REPOSITORY"))
        known = _PAGES if server and name else {}
        metadata["urls"] = {page: f"{server}/{name}{path}" for page, path in known.items()}
