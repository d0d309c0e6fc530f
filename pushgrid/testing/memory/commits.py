"""Group commit without threads or a loop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from shared.delivery.messages.publication import Publication
from shared.engine.publishing.commit import CommitResult


class InlineCommits:
    """Commits that stores each publication alone, and at once."""

    def __init__(
        self, commit: Callable[[Sequence[Publication]], Awaitable[Sequence[CommitResult]]]
    ) -> None:
        self._commit = commit

    async def commit(self, publication: Publication) -> None:
        (result,) = await self._commit([publication])
        if result:
            raise result
