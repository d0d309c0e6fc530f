"""`python -m tools.bicepcheck DIR`: what is wrong with the templates in DIR, without Azure."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from tools.bicepcheck import compiler
from tools.bicepcheck.problems import Report
from tools.bicepcheck.reading.folder import Folder
from tools.bicepcheck.rules import conditions, linter, parameters
from tools.bicepcheck.rules import deployed as rules
from tools.bicepcheck.rules import suppressions as directives
from tools.bicepcheck.rules import usage as names
from tools.bicepcheck.rules.declarations import Declarations
from tools.bicepcheck.types.declared import Types
from tools.bicepcheck.types.infer import Inference
from tools.bicepcheck.types.schema import NoSchemas

NEVER = (
    "what only Azure knows: regions, quotas, names that are taken, rights of who deploys",
    "whether queries find what they look for: they are read for names, not run",
    "values that Azure makes, where an expression goes on with them",
    "the linter's rules about looks, and of azure.yaml all but the service's name",
)
"""What this check does not see, whatever the templates are."""


def check(root: Path) -> Report:
    """
    Return the problems of the templates in *root*, which holds `main.bicep`.

    Raises:
        NoSchemas: the resource types can't be read.
    """
    report = Report()
    folder = Folder(root, report)
    types = Types(folder)
    for file in folder.readable:
        Declarations(file, types, Inference(file, types, report)).check()
    names.check(folder)
    conditions.check(folder)
    linter.check(folder)
    parameters.check(folder, types)
    directives.check(folder)
    if report.problems:
        report.unchecked.add("what is deployed: the problems above come first")
    else:
        rules.check(folder, types, report)
    report.unchecked |= set(NEVER)
    return report


def main(arguments: list[str]) -> int:
    """Run the command; the exit status: 0 good, 1 problems, 2 can't tell."""
    parser = argparse.ArgumentParser(prog="python -m tools.bicepcheck", description=__doc__)
    parser.add_argument("folder", type=Path, metavar="DIR", help="holds main.bicep")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of lines")
    options = parser.parse_args(arguments)
    if not options.folder.is_dir():
        parser.error(f"there is no folder {options.folder}")
    try:
        report = check(options.folder)
        compiler.check(options.folder, report)
    except NoSchemas as error:
        print(f"not checked: {error}", file=sys.stderr)
        return 2
    problems = sorted(report.problems)
    if options.json:
        document = {
            "problems": [
                {"file": one.file, "line": one.line, "code": one.code, "message": one.message}
                for one in problems
            ],
            "unchecked": sorted(report.unchecked),
        }
        print(json.dumps(document, indent=1))
    else:
        for one in problems:
            print(one)
        for text in sorted(report.unchecked):
            print(f"unchecked: {text}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
