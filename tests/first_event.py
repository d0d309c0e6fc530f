"""
Plays the first event with an installed Pushgrid, by the commands of the README.

As a program, `python -m tests.first_event`, it first builds and installs as the Dockerfiles do, in
empty environments: the dependencies, Node and Azurite are downloaded. CI builds the images.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path

from tests.commands import Command
from tests.dockerfiles import copy_context, stages
from tests.package_list import ROOT

_BEGAN = time.monotonic()
_DOCKERFILES = {
    "local": ROOT / "docker/dev.Dockerfile",
    "production": ROOT / "docker/production.Dockerfile",
}
_NO_CACHE = ("--no-cache-dir", "--quiet")
#: Variables of this machine and its user that the images don't have.
_UNSET = ("AzureWebJobs", "PUSHGRID_", "PYTHON", "VIRTUAL_ENV", "XDG_")
_COMMAND = re.compile(r"^(?:\.venv/bin/)?pushgrid (.*)$", re.MULTILINE)


def commands(page: str, heading: str) -> list[list[str]]:
    """Return the arguments of the `pushgrid` commands in a section's first block of them."""
    text = (ROOT / page).read_text("utf-8").split(f"## {heading}\n")[1]
    blocks = (each.partition("```")[0] for each in text.split("```sh\n")[1:])
    block = next(each for each in blocks if _COMMAND.search(each))
    return [shlex.split(each, comments=True) for each in _COMMAND.findall(block)]


def play(
    program: Path,
    folder: Path,
    environ: Mapping[str, str],
    *dev_options: str,
    while_it_runs: Callable[[str], object] = lambda _: None,
) -> list[str]:
    """
    Have an event delivered as the README says; return what `dev` and `listen` have printed.

    *while_it_runs* is called with the deployment's URL.
    """
    with ExitStack() as stack:

        def start(*arguments: str, **variables: str) -> Command:
            command = Command([str(program), *arguments], folder, {**environ, **variables})
            stack.callback(command.end)
            return command

        serving, listening, publishing = commands("README.md", "Your own topic")
        dev = start(*serving, "--port", "0", *dev_options)
        url = dev.see("ready http").split()[1]
        listen = start(*listening, "--port", "0", PUSHGRID_URL=url)
        listen.see("subscribed to orders")
        publish = start(*publishing, PUSHGRID_URL=url)
        publish.see("published event", "1 event subscription matched")
        listen.see("attempt 1, answered 200")
        listen.see('"subject": "/orders/17"')
        dev.see("delivered", "orders/listen-")
        while_it_runs(url)
    return [*dev.lines, *listen.lines]


def main(arguments: list[str]) -> None:
    """Build, install and play, and say what takes how long."""
    parser = argparse.ArgumentParser(prog="python -m tests.first_event", description=__doc__)
    parser.add_argument("--python", default=sys.executable, help="interpreter to install for")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        local, production = (_environment(folder / each, options.python) for each in _DOCKERFILES)
        source = copy_context(_DOCKERFILES["local"], folder / "source")
        wheels = folder / "wheels"
        _run(local, "pip", "wheel", *_NO_CACHE, "--no-deps", "--wheel-dir", wheels, source)
        (wheel,) = wheels.iterdir()
        _run(local, "pip", "install", *_NO_CACHE, f"{wheel}[local]")
        _run(local, "pushgrid", "demo", "--once")

        def check_health(url: str) -> None:
            program, *arguments, code = stages(_DOCKERFILES["local"])[-1].arguments("HEALTHCHECK")
            _run(local, program, *arguments, re.sub("http://[^/]+", url, code))

        _say("first event, with the commands of the README")
        program = local / "bin/pushgrid"
        lines = play(program, local, _surroundings(local), while_it_runs=check_health)
        sys.stdout.write("".join(f"  {line}\n" for line in lines))
        pins = copy_context(_DOCKERFILES["production"], folder / "app") / "requirements.txt"
        _run(production, "pip", "install", *_NO_CACHE, "--require-hashes", "--requirement", pins)
        _say("done")


def _environment(folder: Path, python: str) -> Path:
    _say(f"{folder.name}: an empty environment")
    subprocess.run([python, "-m", "venv", str(folder)], check=True)
    return folder


def _surroundings(environment: Path) -> dict[str, str]:
    """Return variables with which only the environment's own programs are found."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith(_UNSET)}
    return kept | {"HOME": str(environment), "PATH": str(environment / "bin")}


def _run(environment: Path, program: str, *arguments: str | Path) -> None:
    _say(shlex.join(map(str, (program, *arguments))))
    subprocess.run(
        [environment / "bin" / program, *arguments],
        cwd=environment,
        env=_surroundings(environment),
        stdout=subprocess.DEVNULL,
        check=True,
    )


def _say(text: str) -> None:
    sys.stdout.write(f"{time.monotonic() - _BEGAN:6.1f} s  {text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
