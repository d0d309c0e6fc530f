"""Reads a Dockerfile and carries out its steps in folders, without a daemon."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from io import BytesIO
from pathlib import Path

from docker.utils.build import PatternMatcher
from dockerfile_parse import DockerfileParser

from tests.package_list import ROOT

_ABSOLUTE = re.compile(r"(?<![\w.~:/])/(?=[a-z])")
#: Programs that need root or a user database.
_NOT_CARRIED_OUT = ("chown", "useradd")
#: Programs of this machine that the images don't have.
_NOT_THERE = re.compile("node|npm|npx|corepack|pip.*|python.*")
#: Variables of this machine and its user that the images don't have.
_UNSET = ("AzureWebJobs", "PUSHGRID_", "PYTHON", "VIRTUAL_ENV", "XDG_")


@dataclass(frozen=True, slots=True)
class Step:
    """An instruction, in capitals, and what follows it."""

    instruction: str
    value: str


@dataclass(slots=True, kw_only=True)
class Stage:
    """The steps from one FROM to the next; *name* is what other stages call it."""

    base: str
    name: str
    steps: list[Step] = field(default_factory=list)

    def values(self, instruction: str) -> list[str]:
        return [step.value for step in self.steps if step.instruction == instruction]

    def arguments(self, instruction: str) -> list[str]:
        """Return the arguments of the last such instruction in JSON form."""
        *_, value = self.values(instruction)
        return list(json.loads(value[value.index("[") :]))


def stages(dockerfile: Path) -> list[Stage]:
    """Return the stages of a Dockerfile."""
    found: list[Stage] = []
    parser = DockerfileParser(fileobj=BytesIO(dockerfile.read_bytes()), env_replace=False)
    for each in parser.structure:
        instruction, value = each["instruction"], each["value"]
        if instruction == "FROM":
            base, _, name = value.partition(" AS ")
            found.append(Stage(base=base, name=name))
        elif instruction != "COMMENT":
            found[-1].steps.append(Step(instruction, value))
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


@dataclass(slots=True, kw_only=True)
class Build:
    """
    Carries out the steps of a stage below *root*, with *programs* first in the PATH.

    Each absolute path is one below *root*. *sources* has the folders that are copied from: the
    build's context as ``""``, and those of earlier stages. Not carried out: who owns files, and
    who runs programs.
    """

    root: Path
    programs: Path
    sources: Mapping[str, Path]
    folder: Path = Path()

    def run(
        self,
        stage: Stage,
        *instructions: str,
        say: Callable[[str], object] = lambda _: None,
    ) -> None:
        """Carry out the steps of a stage that are *instructions*, and *say* which."""
        self.folder = self.root
        self._provide_programs()
        for step in (each for each in stage.steps if each.instruction in instructions):
            say(f"{step.instruction} {step.value}")
            match step.instruction:
                case "WORKDIR":
                    self.folder = self._below(step.value)
                    self.folder.mkdir(parents=True, exist_ok=True)
                case "COPY":
                    self._copy(shlex.split(step.value))
                case "RUN":
                    self.command(["sh", "-e", "-c", self.rewritten(step.value)])

    def rewritten(self, text: str) -> str:
        """Return *text* with its absolute paths below the root."""
        return _ABSOLUTE.sub(f"{self.root}/", text)

    def command(self, command: Sequence[str]) -> None:
        """
        Run a command in the folder that the steps have reached.

        Raises:
            RuntimeError: it failed; the message has what it printed.
        """
        ended = subprocess.run(
            command,
            cwd=self.folder,
            env=self.surroundings(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if ended.returncode:
            raise RuntimeError(f"{shlex.join(command)}\n{ended.stdout}")

    def surroundings(self) -> dict[str, str]:
        """Return the environment of a command: nothing of the checkout is in it."""
        kept = {name: text for name, text in os.environ.items() if not name.startswith(_UNSET)}
        home = self.root / "home"
        home.mkdir(exist_ok=True)
        return kept | {"HOME": str(home), "PATH": f"{self.programs}:{self._others}"}

    @property
    def _others(self) -> Path:
        return self.root / "programs"

    def _provide_programs(self) -> None:
        self._others.mkdir(parents=True)
        for folder in map(Path, os.defpath.split(":")):
            for program in folder.iterdir():
                link = self._others / program.name
                if not _NOT_THERE.fullmatch(program.name) and not link.is_symlink():
                    link.symlink_to(program)
        for name in _NOT_CARRIED_OUT:
            (self._others / name).unlink(missing_ok=True)
            (self._others / name).symlink_to("true")

    def _copy(self, words: list[str]) -> None:
        stage = words.pop(0).removeprefix("--from=") if words[0].startswith("--from=") else ""
        *paths, target = words
        for path in paths:
            _copy_into(self.sources[stage] / path.lstrip("/"), self._below(target), target)

    def _below(self, path: str) -> Path:
        return self.root / path.lstrip("/") if path.startswith("/") else self.folder / path


def _copy_into(source: Path, target: Path, written: str) -> None:
    if source.is_dir():
        shutil.copytree(source, target, dirs_exist_ok=True)
        return
    target = target / source.name if written.endswith("/") else target
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


def copy_context(dockerfile: Path, target: Path) -> Path:
    """Copy what a build of this Dockerfile can copy into *target*; return that."""
    for path in context(dockerfile):
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / path, target / path)
    return target
