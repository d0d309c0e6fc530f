"""
Lays out the wheel as one package, `pushgrid`.

Its folder `home` holds what stands beside it in a checkout. The app's library is
`pushgrid.shared`, because many projects have a `shared` of their own.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from pathspec import GitIgnoreSpec

LIBRARY = re.compile(r"^( *(?:from|import) )shared\b", re.MULTILINE)


class WheelLayout(BuildHookInterface):  # type: ignore[type-arg] # its parameter is a private class
    """Adds the files of the source distribution, in their places in the wheel."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the files as they are in the wheel, and name them; an editable wheel has none."""
        if version == "editable":
            return
        root = Path(self.root)
        self._folder = tempfile.mkdtemp()
        source = self.build_config.builder.metadata.hatch.build_targets["sdist"]
        selected = _selected(root, source["include"], source["exclude"])
        for number, path in enumerate(selected):
            copy = Path(self._folder, str(number))
            copy.write_text(_in_the_wheel(path))
            build_data["force_include"][str(copy)] = str(_place(path.relative_to(root)))

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the copies."""
        del build_data, artifact_path
        if version != "editable":
            shutil.rmtree(self._folder)


def _selected(root: Path, include: list[str], exclude: list[str]) -> list[Path]:
    left_out = GitIgnoreSpec.from_lines(exclude)
    found = {path for pattern in include for path in root.glob(pattern.removeprefix("/"))}
    files = (path for path in found if path.is_file())
    return sorted(path for path in files if not left_out.match_file(path.relative_to(root)))


def _in_the_wheel(path: Path) -> str:
    text = path.read_text()
    return LIBRARY.sub(r"\1pushgrid.shared", text) if path.suffix == ".py" else text


def _place(path: Path) -> Path:
    match path.parts[0]:
        case "pushgrid":
            return path
        case "shared":
            return Path("pushgrid", path)
        case _:
            return Path("pushgrid/home", path)
