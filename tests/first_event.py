"""
Plays the first event with an installed Pushgrid, by the commands of the README.

As a program, `python -m tests.first_event`, it carries out the steps of the Dockerfiles first, in
folders and empty environments: the wheel is built and installed, and its dependencies, Node and
Azurite are downloaded.
"""

from __future__ import annotations

import argparse
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
from tests.dockerfiles import Build, Stage, copy_context, stages
from tests.package_list import ROOT

_BEGAN = time.monotonic()
_LOCAL, _PRODUCTION = (ROOT / f"docker/{name}.Dockerfile" for name in ("dev", "production"))
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
        wheel, local = stages(_LOCAL)
        sources = {"": copy_context(_LOCAL, folder / "context"), wheel.name: folder / wheel.name}
        _carry_out(wheel, folder / wheel.name, options.python, sources)
        build = _carry_out(local, folder / "local", options.python, sources)

        def check_health(url: str) -> None:
            *command, code = local.arguments("HEALTHCHECK")
            build.command([*command, re.sub("http://[^/]+", url, code)])

        _say("first event, with the commands of the README")
        lines = play(
            build.programs / "pushgrid",
            build.folder,
            build.surroundings(),
            while_it_runs=check_health,
        )
        sys.stdout.write("".join(f"  {line}\n" for line in lines))
        (production,) = stages(_PRODUCTION)
        sources = {"": copy_context(_PRODUCTION, folder / "production-context")}
        _carry_out(production, folder / "production", options.python, sources)
        _say("done")


def _carry_out(stage: Stage, root: Path, python: str, sources: Mapping[str, Path]) -> Build:
    environment = root / "venv"
    _say(f"FROM {stage.base}: an empty environment instead")
    subprocess.run([python, "-m", "venv", str(environment)], check=True)
    build = Build(root=root, programs=environment / "bin", sources=sources)
    build.run(stage, "WORKDIR", "COPY", "RUN", say=_say)
    return build


def _say(text: str) -> None:
    sys.stdout.write(f"{time.monotonic() - _BEGAN:6.1f} s  {text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
