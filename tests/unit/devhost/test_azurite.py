"""Why Azurite does not start, in one line."""

from __future__ import annotations

import pytest

from devhost.azurite import why_it_ended

# What Node 20.20 printed.
_COMMON = """node:internal/modules/cjs/loader:1210
  throw err;
  ^

Error: Cannot find module '/nowhere/x'
Require stack:
- /folder/[eval]
    at Module._resolveFilename (node:internal/modules/cjs/loader:1207:15) {
  code: 'MODULE_NOT_FOUND',
}

Node.js v20.20.2"""
_MODULE = """node:internal/modules/esm/resolve:283
    throw new ERR_MODULE_NOT_FOUND(
          ^

Error [ERR_MODULE_NOT_FOUND]: Cannot find module '/nowhere/x.js'
    at finalizeResolution (node:internal/modules/esm/resolve:283:11)

Node.js v20.20.2"""


@pytest.mark.parametrize(
    ("printed", "why"),
    [
        (_COMMON, "Error: Cannot find module '/nowhere/x'"),
        (_MODULE, "Error [ERR_MODULE_NOT_FOUND]: Cannot find module '/nowhere/x.js'"),
        ("SyntaxError: Unexpected token\n\nNode.js v20.20.2", "SyntaxError: Unexpected token"),
        ("Azurite begins\nExit due to unhandled error: no", "Exit due to unhandled error: no"),
        ("", "it printed nothing"),
    ],
)
def test_the_line_with_the_error_is_told(printed, why):
    assert why_it_ended(printed) == why
