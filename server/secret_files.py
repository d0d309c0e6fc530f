"""Finds secrets in the environment, where each may stand in a file instead."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from server.failure import CannotStart

#: Names the file with a secret, after the secret's own name.
IN_A_FILE = "_FILE"
_MOST = 64 * 1024  # bytes of a secret


def find_secret(name: str, environ: Mapping[str, str]) -> str:
    """
    Return the secret that *name* has, or the file that its ``…_FILE`` names; empty: neither is set.

    Raises:
        CannotStart: both are set, or the file can't be read.
    """
    of_file = f"{name}{IN_A_FILE}"
    given, path = (environ.get(each, "").strip() for each in (name, of_file))
    if given and path:
        raise CannotStart(f"{name} and {of_file} are both set: unset one of them.")
    return _read(of_file, path) if path else given


def _read(name: str, path: str) -> str:
    try:
        with Path(path).open("rb") as file:
            text = file.read(_MOST + 1).decode()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text in UTF-8"
        raise CannotStart(
            f"{name}: {path} can't be read ({why}): name a file that this user may read."
        ) from None
    if len(text) > _MOST or not text.strip():
        why = "is empty" if not text.strip() else f"has more than {_MOST} characters"
        raise CannotStart(f"{name}: {path} {why}: write the secret into it, alone.")
    return text.strip()
