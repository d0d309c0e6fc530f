"""Reads the steps of our Dockerfiles, and the files that a build of them can copy."""

from __future__ import annotations

import json
import re
import shutil
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from tests.package_list import ROOT


class Stage(NamedTuple):
    """The steps from one FROM to the next: instructions, in capitals, and what follows them."""

    base: str
    steps: list[tuple[str, str]]

    def values(self, instruction: str) -> list[str]:
        return [value for name, value in self.steps if name == instruction]

    def arguments(self, instruction: str) -> list[str]:
        """Return the arguments of the last such instruction in JSON form."""
        *_, value = self.values(instruction)
        return list(json.loads(value[value.index("[") :]))


def stages(dockerfile: Path) -> list[Stage]:
    """Return the stages of a Dockerfile."""
    found: list[Stage] = []
    text = dockerfile.read_text().replace("\\\n", " ")
    for name, value in re.findall(r"^([A-Z]+) (.+)$", text, re.MULTILINE):
        if name == "FROM":
            found.append(Stage(value.partition(" AS ")[0], []))
        else:
            found[-1].steps.append((name, value))
    return found


def context(dockerfile: Path, root: Path = ROOT) -> set[Path]:
    """Return the files below *root* that a build of this Dockerfile can copy."""
    lines = Path(f"{dockerfile}.dockerignore").read_text().splitlines()
    first, *others = [line for line in lines if not line.startswith("#")]
    assert first == "*"
    found = set[Path]()
    for line in others:  # The last that names a file decides.
        if line.startswith("!"):
            paths = root.glob(line.removeprefix("!"))
            found |= {path.relative_to(root) for path in paths if path.is_file()}
        else:
            name = line.removeprefix("**/")
            found = {
                each for each in found if not any(fnmatchcase(part, name) for part in each.parts)
            }
    return found


def copy_context(dockerfile: Path, target: Path) -> Path:
    """Copy what a build of this Dockerfile can copy into *target*; return that."""
    for path in context(dockerfile):
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / path, target / path)
    return target
