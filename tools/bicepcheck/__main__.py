"""`python -m tools.bicepcheck DIR`: the command."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from tools.bicepcheck import compiler
from tools.bicepcheck.check import check
from tools.bicepcheck.rules.catalog import RULES
from tools.bicepcheck.types.schema import NoSchemas


def main(arguments: list[str]) -> int:
    """Run the command; exit status 0: no problems, 1: problems, 2: could not check."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.bicepcheck", description="Check Bicep templates without Azure."
    )
    parser.add_argument("folder", type=Path, metavar="DIR", nargs="?", help="contains main.bicep")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--rules", action="store_true", help="list all rules and exit")
    options = parser.parse_args(arguments)
    if options.rules:
        for rule in RULES:
            print(rule)
        return 0
    if options.folder is None:
        parser.error("the following arguments are required: DIR")
    if not options.folder.is_dir():
        parser.error(f"there is no folder {options.folder}")
    try:
        report = check(options.folder)
        compiler.check(options.folder, report)
    except NoSchemas as error:
        print(f"not checked: {error}", file=sys.stderr)
        return 2
    problems, unchecked = sorted(report.problems), sorted(report.unchecked)
    if options.json:
        document = {"problems": [asdict(one) for one in problems], "unchecked": unchecked}
        print(json.dumps(document, indent=1))
    else:
        print("".join(f"{one}\n" for one in problems), end="")
        print("".join(f"unchecked: {text}\n" for text in unchecked), end="", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
