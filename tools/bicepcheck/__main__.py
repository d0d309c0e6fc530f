"""`python -m tools.bicepcheck DIR`: the command."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from tools.bicepcheck.check import check


def main(arguments: list[str]) -> int:
    """Run the command; exit status 0: no problems, 1: problems, 2: could not check."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.bicepcheck", description="Check Bicep templates without Azure."
    )
    parser.add_argument("folder", type=Path, metavar="DIR", help="contains main.bicep")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    options = parser.parse_args(arguments)
    if not options.folder.is_dir():
        parser.error(f"there is no folder {options.folder}")
    report = check(options.folder)
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
