"""`python -m tests.infra.check DIR` runs `tools.bicepcheck` under its earlier name."""

from __future__ import annotations

import sys

from tools.bicepcheck.__main__ import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
