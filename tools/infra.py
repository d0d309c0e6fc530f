"""
`make infra`: what Bicep's compiler makes of the templates is what is committed.

The compiler runs on copies of `infra/`. What differs is printed property by property, or written
(`--update`). `infra/README.md` says what the files in `infra/tests/` hold.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
TEMPLATE = "infra/tests/main.json"
#: Where a snapshot's resources would go. Made up: nothing is deployed.
PLACE = (
    *("--subscription-id", "00000000-0000-0000-0000-00000000000a"),
    *("--tenant-id", "00000000-0000-0000-0000-00000000000b"),
    *("--location", "westeurope"),
)
MODULE = "Microsoft.Resources/deployments"
#: Members of a compiled resource that snapshots have evaluated.
EVALUATED = {
    *("apiVersion", "condition", "existing", "identity", "kind", "location", "name", "properties"),
    *("resourceGroup", "scope", "sku", "subscriptionId", "tags", "type"),
}
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
#: What may be the symbol of a resource: the whole text, or in `reference('site')`, `'zones[{0}]'`.
SYMBOL = re.compile(r"^\w+$|(?<=')\w+(?=['\[])")


NO_COMPILER = (
    "There is no Bicep compiler: set BICEP, put `bicep` on the path, or run `az bicep install`."
)


class MissingCompiler(Exception):
    """There is no compiler, or none that BICEP names."""


def main(arguments: list[str]) -> int:
    """Run the command; exit status 0: as committed, or written; 1: not so."""
    parser = argparse.ArgumentParser(prog="python -m tools.infra", description=__doc__)
    parser.add_argument("--update", action="store_true", help="write what differs")
    update = parser.parse_args(arguments).update
    try:
        program = compiler()
    except MissingCompiler as missing:
        print(missing)
        return 1
    if not program:
        print(f"Skipped: formatter, linter, main.json and snapshots of infra/. {NO_COMPILER}")
        return 1 if update else 0
    with tempfile.TemporaryDirectory() as folder:
        texts, reports, version = Bicep(program, Path(folder).resolve()).generate()
    lines = [*reports, "infra/: repair what the compiler reports."] if reports else []
    lines += without_parameters()
    found = [f"{path}: {line}" for path, text in texts.items() for line in changes(path, text)]
    if found and not update:
        lines += [*found, "Review these differences like code; `make infra UPDATE=1` writes them."]
    if lines:
        print(*other_version(version), *lines, sep="\n")
    if update:
        write(texts)
    return 1 if lines else 0


def compiler() -> str | None:
    """
    Return the path of the compiler, if there is one.

    Raises:
        MissingCompiler: BICEP names none.
    """
    if named := os.environ.get("BICEP"):
        if not (program := shutil.which(named)):
            raise MissingCompiler(f"BICEP names no program: {named}")
        return str(Path(program).absolute())
    return shutil.which("bicep") or shutil.which("bicep", path=Path.home() / ".azure/bin")


def run(program: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the compiler in a folder; what it reports has no colours."""
    done = subprocess.run(
        [program, *arguments],
        cwd=folder,
        capture_output=True,
        encoding="utf-8",
        check=False,
        env=os.environ | {"TZ": "UTC"},
    )
    done.stderr = COLOURS.sub("", done.stderr)
    return done


def read_snapshot(parameters: Path) -> Any:
    """Return the snapshot of ``NAME.bicepparam``; the compiler's order of outputs varies."""
    document = json.loads(parameters.with_suffix(".snapshot.json").read_text("utf-8"))
    return document | {"outputs": dict(sorted(document["outputs"].items()))}


class Bicep:
    """The compiler, in a folder with two copies of `infra/`: one of them it formats."""

    def __init__(self, program: str, folder: Path) -> None:
        self.program, self.folder = program, folder
        #: In order, and each once: every run reports what is wrong with the templates.
        self.reports: dict[str, None] = {}
        for copy in ("compiled", "formatted"):
            made = shutil.ignore_patterns("*.snapshot.json")
            shutil.copytree(ROOT / "infra", folder / copy / "infra", ignore=made)

    def generate(self) -> tuple[dict[str, str], list[str], str]:
        """Return the files as they should be, by path, what the compiler reports, its version."""
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            formatting = pool.submit(self.run, "formatted", "format", "--pattern", "**/*.bicep*")
            template = self.run("compiled", "build", "infra/main.bicep", "--stdout")
            parameters = sorted((self.folder / "compiled/infra/tests").glob("*.bicepparam"))
            snapshots = list(pool.map(self.snapshot, parameters)) if template else []
            formatting.result()
        sources = self.folder / "formatted"
        texts = {
            str(path.relative_to(sources)): path.read_text("utf-8")
            for path in sorted(sources.rglob("*.bicep*"))
        }
        if template:
            document = json.loads(template)
            version: str = document["metadata"]["_generator"]["version"]
            for output in document["outputs"].values():
                del output["value"]  # evaluated in snapshots, other than those of modules
            texts[TEMPLATE] = as_text({"bicep": version} | without_evaluated(document))
        else:
            printed = self.run("compiled", "--version") or ""
            version = "".join(re.findall(r"version ([\d.]+)", printed))
        return texts | dict(filter(None, snapshots)), list(self.reports), version

    def snapshot(self, parameters: Path) -> tuple[str, str] | None:
        """Return the path and the text of a snapshot."""
        name = parameters.relative_to(self.folder / "compiled")
        made = parameters.with_suffix(".snapshot.json")
        if self.run("compiled", "snapshot", str(name), "--mode", "overwrite", *PLACE) is None:
            return None
        if not made.exists():
            self.reports[f"{name}: the compiler has written no snapshot"] = None
            return None
        return str(name.with_suffix(".snapshot.json")), as_text(read_snapshot(parameters))

    def run(self, copy: str, *arguments: str) -> str | None:
        """Return what the compiler prints, nothing if it fails; keep what it reports."""
        done = run(self.program, self.folder / copy, *arguments)
        report = done.stderr.replace(f"{self.folder / copy}{os.sep}", "")
        fails = done.returncode != 0 or ("--stdout" in arguments and not done.stdout.strip())
        if fails and not report.strip():
            report = f"bicep {' '.join(arguments)}: exit status {done.returncode}, and no output"
        self.reports.update(dict.fromkeys(filter(str.strip, report.splitlines())))
        return None if fails else done.stdout


def without_evaluated(template: Mapping[str, Any]) -> dict[str, Any]:
    """
    Return what snapshots lack of a compiled template: parameters, order, and outputs of modules.

    A module goes by its symbol, from which its deployment is named; any other resource by its type,
    because its symbol is not deployed, and where it is referred to, by what tells it apart from
    others of that type: its name.
    """
    given = template["resources"]  # a list where a template has no types of its own
    is_named = isinstance(given, dict)
    by_symbol: dict[str, Any] = given if is_named else {f"#{at}": x for at, x in enumerate(given)}
    types = Counter(each["type"] for each in by_symbol.values() if not each.get("existing"))
    keys = {
        symbol: symbol if each["type"] == MODULE else each["type"]
        for symbol, each in by_symbol.items()
    }
    names = {
        symbol: f"{key} {by_symbol[symbol]['name']}" if types[key] > 1 else key
        for symbol, key in keys.items()
    }
    definitions = template.get("definitions", {})
    left = [(keys[symbol], unevaluated(each, names)) for symbol, each in by_symbol.items()]
    return {
        "parameters": {
            name: declaration(each, definitions)
            for name, each in template.get("parameters", {}).items()
        },
        "resources": numbered(pair for pair in left if pair[1]),
        "outputs": {
            name: renamed(declaration(each, definitions), names)
            for name, each in template.get("outputs", {}).items()
        },
    }


def unevaluated(resource: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Return what snapshots lack of a resource, its references renamed; of most it is nothing."""
    if resource.get("existing"):
        return {}
    left = {name: each for name, each in resource.items() if name not in EVALUATED}
    loop = left.pop("copy", {})  # unrolled in snapshots, but for how many are made at a time
    left |= {name: each for name, each in loop.items() if name not in {"name", "count"}}
    if "dependsOn" in left:
        left["dependsOn"] = sorted(renamed(left["dependsOn"], names))
    if resource["type"] == MODULE:
        left |= without_evaluated(resource["properties"]["template"])
    return left


def numbered(pairs: Iterator[tuple[str, dict[str, Any]]]) -> dict[str, Any]:
    """Return resources by name, whatever their order; a number tells those of one type apart."""
    resources: dict[str, Any] = {}
    for name, each in sorted(pairs, key=json.dumps):
        same = sum(one.partition(" ")[0] == name for one in resources)
        resources[f"{name} {same + 1}" if same else name] = each
    return resources


def declaration(node: Any, definitions: Mapping[str, Any]) -> Any:
    """Return a declaration with its types in it, and without what is only for readers."""
    if isinstance(node, list):
        return [declaration(each, definitions) for each in node]
    if not isinstance(node, dict):
        return node
    if reference := node.get("$ref"):
        node = definitions[reference.rpartition("/")[2]] | node
    members = {
        name: declaration(each, definitions)
        for name, each in node.items()
        if name not in {"$ref", "description"} and not name.startswith("__bicep")
    }
    if isinstance(rows := members.get("defaultValue"), list):
        rows.sort(key=json.dumps)  # what their order does is in the snapshots
    return {name: each for name, each in members.items() if (name, each) != ("metadata", {})}


def renamed(node: Any, names: Mapping[str, str]) -> Any:
    """Return a part of a template with its symbols as *names* has them."""
    if isinstance(node, dict):
        return {name: renamed(each, names) for name, each in node.items()}
    if isinstance(node, list):
        return [renamed(each, names) for each in node]
    if isinstance(node, str):
        return SYMBOL.sub(lambda found: names.get(found[0], found[0]), node)
    return node


def committed(path: str) -> str:
    """Return a committed file; one that is missing is empty."""
    file = ROOT / path
    return file.read_text("utf-8") if file.exists() else ""


def without_parameters() -> Iterator[str]:
    """Yield a line for each snapshot whose parameters are gone: nothing would compare it."""
    for path in sorted((ROOT / "infra/tests").glob("*.snapshot.json")):
        parameters = f"{path.name.removesuffix('.snapshot.json')}.bicepparam"
        if not path.with_name(parameters).exists():
            yield f"infra/tests/{path.name}: {parameters} is missing"


def write(texts: Mapping[str, str]) -> None:
    for path, text in texts.items():
        if committed(path) != text:
            (ROOT / path).write_text(text, "utf-8")
            print(f"{path}: written")


def changes(path: str, text: str) -> Iterator[str]:
    """Yield a line for each difference between a committed file and what it should be."""
    before = committed(path)
    if path.endswith(".json"):
        yield from differences(contents(before), contents(text))
    elif before != text:
        yield "not as Bicep's formatter writes it"


def contents(text: str) -> dict[str, Any]:
    """Return what is compared of a document: resources by id, as their order is free."""
    document: dict[str, Any] = json.loads(text or "{}")
    document.pop("bicep", None)
    resources = document.pop("predictedResources", [])
    by_id = {each["id"].partition("/providers/")[2] or each["id"]: each for each in resources}
    return document | by_id


def differences(before: Any, now: Any, path: str = "") -> Iterator[str]:
    """Yield a line for each property that differs."""
    if isinstance(before, dict) and isinstance(now, dict):
        for name in before | now:
            here = f"{path}.{name}" if path else name
            if name not in now:
                yield f"{here} is gone"
            elif name not in before:
                yield f"{here} is new: {json.dumps(now[name])}"
            else:
                yield from differences(before[name], now[name], here)
    elif isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        for index, (old, new) in enumerate(zip(before, now, strict=True)):
            yield from differences(old, new, f"{path}[{index}]")
    elif json.dumps(before) != json.dumps(now):
        yield f"{path} was {json.dumps(before)}, is {json.dumps(now)}"


def other_version(this: str) -> Iterator[str]:
    """Yield a line if another version of the compiler has made the committed files."""
    made_by = json.loads(committed(TEMPLATE) or "{}").get("bicep")
    if made_by and this and not f"{made_by}.".startswith(f"{this}."):
        yield (
            f"Bicep {made_by} made the committed files, and this is {this}:"
            " what follows may be the compiler's."
        )


def as_text(document: Any) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
