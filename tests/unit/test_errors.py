"""Which errors pass by themselves."""

from __future__ import annotations

from errno import ECONNRESET, EMFILE

import pytest

from shared.errors import Conflict, StorageUnavailable, StorageUnreachable, Unstorable, is_transient


@pytest.mark.parametrize(
    ("error", "found"),
    [
        (StorageUnavailable(), True),
        (StorageUnreachable(), True),
        (OSError(EMFILE, ""), True),
        (OSError(ECONNRESET, ""), True),
        (MemoryError(), True),
        (RuntimeError("can't start new thread"), True),
        (Unstorable(), False),
        (Conflict(), False),
        (KeyError("a member of an event"), False),
    ],
    ids=repr,
)
def test_what_a_later_try_can_mend_is_transient(error: Exception, *, found: bool) -> None:
    """Timers recorded messages for want of a thread; a replay ended when a connection was reset."""
    assert is_transient(error) is found
