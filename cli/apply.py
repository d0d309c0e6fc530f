"""`pushgrid apply` and `pushgrid schema`: bring a deployment to one file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from rich.text import Text

from cli.configuration import (
    Action,
    Change,
    Configuration,
    carry_out,
    plan,
    read_configuration,
    refuse_to_delete_all,
)
from cli.configuration.file_names import PARAMETER_FILE
from cli.configuration.schema import SCHEMA
from cli.configuration.source import FileFaults, read_source
from cli.configuration.template.template_file import KeyVaultSecret
from cli.deployment import Deployment
from cli.failure import REFUSED
from cli.option_types import NAME_VALUE
from cli.options import calls_deployment, prints_json
from cli.output import Console
from cli.terminal import print_json, printable, say

_FILE = click.Path(dir_okay=False, path_type=Path)
_UNCHECKED = "not checked: what it needs does not exist yet"
_SIGNS = {
    Action.CREATE: ("+", "green"),
    Action.UPDATE: ("~", "yellow"),
    Action.DELETE: ("-", "red"),
    Action.UNCHANGED: ("=", None),
}


@click.command("apply")
@click.argument("file", type=_FILE)
@click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
@click.option("--prune", is_flag=True, help="Delete resources that the file does not name.")
@click.option("--parameters", "parameter_file", type=_FILE, help="Parameter file of a template.")
@click.option(
    "--parameter", "given", type=NAME_VALUE, multiple=True, help="Parameter of a template."
)
@click.option(
    "--skip",
    metavar="RESOURCE",
    multiple=True,
    help="Leave a resource alone, with what is in it; named as a plan names it.",
)
@prints_json
@calls_deployment
def apply(
    deployment: Deployment,
    file: Path,
    dry_run: bool,
    prune: bool,
    parameter_file: Path | None,
    given: tuple[tuple[str, str], ...],
    skip: tuple[str, ...],
    as_json: bool,
) -> int:
    """
    Apply FILE to a deployment.

    FILE names topics, system topics, namespaces and event subscriptions: a pushgrid.json or
    pushgrid.yaml, or a compiled Bicep or ARM template. Resources that match FILE stay unchanged: a
    second run changes nothing.
    """
    parameters = _read_parameters(parameter_file) | dict(given)
    configuration = read_configuration(file, parameters, deployment.scope, skip)
    if prune:
        _refuse_unknown_skips(file, configuration)
        refuse_to_delete_all(file, configuration)
    done: list[Change] = []
    with (
        Console(stderr=True).status(Text(f"comparing {deployment.url} with {file} …")) as progress,
        _telling_of_an_interruption(done),
    ):

        def show(change: Change) -> None:
            done.append(change)
            if not as_json:
                progress.stop()  # it holds the standard output while it is shown
                _show(change)
                progress.start()

        changes = plan(deployment.quiet, configuration, prune=prune)
        progress.update(Text(f"applying {file} …"))
        if dry_run:
            for each in changes:
                is_told_below = each.is_checked or not as_json
                show(each if is_told_below else replace(each, warnings=(_UNCHECKED,)))
        else:
            carry_out(deployment.quiet, changes, show)
    if as_json:
        print_json(_document(configuration, done, dry_run=dry_run))
    else:
        _summarize(file, configuration, done, dry_run=dry_run)
    return REFUSED if any(each.faults for each in done) else 0


@contextmanager
def _telling_of_an_interruption(done: Sequence[Change]) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        count = sum(each.changes_something for each in done)
        said = f"interrupted; done: {count}; what was under way may still be carried out"
        say(f"pushgrid: {said}", err=True)
        raise


@click.command("schema")
def schema() -> None:
    """Print the JSON schema of pushgrid.json, for editors."""
    say(SCHEMA.read_text(encoding="utf-8").removesuffix("\n"))


def _refuse_unknown_skips(file: Path, configuration: Configuration) -> None:
    """Refuse to delete what may have been skipped: its name is not known."""
    for each in configuration.skipped:
        if each.id is None:
            raise FileFaults(
                f"{file}: --prune can't be used with --skip '{each.title}', whose name is not known"
            )


def _read_parameters(path: Path | None) -> dict[str, Any]:
    if path is None:
        return {}
    source = read_source(path).in_documented_case(PARAMETER_FILE)
    try:
        return {
            name: KeyVaultSecret(source.root.below("parameters", name))
            if "reference" in member
            else member["value"]
            for name, member in source.value["parameters"].items()
        }
    except (TypeError, KeyError, AttributeError):
        form = '{"parameters": {NAME: {"value": …}}}'
        raise FileFaults(f"{path}:1: this is not a parameter file: {form} is expected") from None


def _show(change: Change) -> None:
    """Print what happens to a resource, unless nothing does."""
    if change.action is not Action.UNCHANGED or change.warnings:
        sign, colour = ("!", "red") if change.faults else _SIGNS[change.action]
        # What is refused stands with its reasons, on one stream.
        head = f"{sign} {change.id.kind} {change.id.name}"
        say(printable(head), err=bool(change.faults), colour=colour)
    for line in change.differences:
        _print(f"    {line}")
    for line in change.warnings:
        _print(f"    warning: {line}", "yellow")
    for line in change.faults:
        say(printable(line), err=True, colour="red")


def _print(line: str, colour: str | None = None) -> None:
    say(printable(line), colour=colour)


def _summarize(
    file: Path, configuration: Configuration, changes: Sequence[Change], *, dry_run: bool
) -> None:
    for each in configuration.left_out:
        _print(f"left out: {each}")
    for skipped in configuration.skipped:
        _print(f"skipped: {skipped.title}", "yellow")
    failed = sum(bool(each.faults) for each in changes)
    counts = Counter(each.action for each in changes if not each.faults)
    total = counts.total() - counts[Action.UNCHANGED]
    if not total and not failed:
        _print(f"Nothing to change: the deployment is as {file} says.")
        return
    words = [
        f"{counts[action]} {action.planned if dry_run else action.done}"
        for action in Action
        if counts[action]
    ]
    words += [f"{failed} refused"] if failed else []
    _print(f"{'Dry run: ' if dry_run else ''}{', '.join(words)}.")
    if dry_run and (unchecked := sum(not each.is_checked for each in changes)):
        _print(f"{unchecked} not checked: what they need does not exist yet.", "yellow")


def _document(
    configuration: Configuration, changes: Sequence[Change], *, dry_run: bool
) -> Mapping[str, Any]:
    return {
        "dryRun": dry_run,
        "changes": [each.document for each in changes],
        "leftOut": list(configuration.left_out),
        "skipped": [each.title for each in configuration.skipped],
    }
