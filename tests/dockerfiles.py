"""Reads the steps of a Dockerfile, and the files that a build of it can copy."""

from __future__ import annotations

import json
import shutil
from fnmatch import fnmatch
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

from docker.utils.build import PatternMatcher
from dockerfile_parse import DockerfileParser

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
    parser = DockerfileParser(fileobj=BytesIO(dockerfile.read_bytes()), env_replace=False)
    for each in parser.structure:
        if each["instruction"] == "FROM":
            found.append(Stage(each["value"].partition(" AS ")[0], []))
        elif each["instruction"] != "COMMENT":
            found[-1].steps.append((each["instruction"], each["value"]))
    return found


def context(dockerfile: Path, root: Path = ROOT) -> set[Path]:
    """
    Return the files below *root* that a build of this Dockerfile can copy.

    Only BuildKit reads the ignore file of a Dockerfile. It asks of each file whether it is
    excluded; docker-py would not enter a folder whose files alone are named.
    """
    text = Path(f"{dockerfile}.dockerignore").read_text()
    matcher = PatternMatcher([line for line in text.splitlines() if line and line[0] != "#"])
    tops = [each.dirs[0] for each in matcher.patterns if each.exclusion]
    return {
        Path(path)
        for top in root.iterdir()
        if any(fnmatch(top.name, each) for each in tops)
        for file in (top.rglob("*") if top.is_dir() else [top])
        if file.is_file() and not matcher.matches(path := file.relative_to(root).as_posix())
    }


def copy_context(dockerfile: Path, target: Path) -> Path:
    """Copy what a build of this Dockerfile can copy into *target*; return that."""
    for path in context(dockerfile):
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / path, target / path)
    return target
