"""Writes what a list shows of a blob of dead letters as the blob's metadata, and reads it back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import quote, unquote

from shared.clip import clip
from shared.errors import InvalidEvents
from shared.events import strict_json
from shared.events.literals import dumps

# Storage wants names of C# identifiers, and values in ASCII.
_TOPIC, _REASONS, _FIRST = "pushgrid_topic", "pushgrid_reasons", "pushgrid_first"
_DEPTH = 1
MAX_REASONS = 32  # Event Grid has fewer; a list keeps the summaries of all blobs of an hour
_LONGEST = 1024  # characters of a topic or a reason
MOST_FIRST = 200  # characters: up to 1,800 bytes of the 8 KiB that metadata may have
_SAFE = "/()"  # of ARM ids


class BlobSummary(NamedTuple):
    """The topic whose events a blob has, and their number by reason."""

    topic_id: str  # ARM id; empty: the blob does not tell its topic
    reasons: Mapping[str, int]
    first: str = ""  # type and subject of its first event, in one text

    @property
    def events(self) -> int:
        return sum(self.reasons.values())

    def to_metadata(self) -> dict[str, str]:
        topic = {_TOPIC: quote(self.topic_id, safe=_SAFE)} if self.topic_id else {}
        text = quote(clip(self.first, MOST_FIRST), safe=_SAFE, errors="replace")
        first = {_FIRST: text} if text else {}
        return topic | first | {_REASONS: dumps({**self.reasons})}

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, str]) -> BlobSummary | None:
        """Return the summary of a blob; ``None`` if it has none that can be read."""
        found = {name.lower(): value for name, value in metadata.items()}
        try:
            reasons = strict_json.parse(found.get(_REASONS, "").encode(), max_depth=_DEPTH)
        except InvalidEvents:
            return None
        topic_id = unquote(found.get(_TOPIC, ""))
        if not isinstance(reasons, dict) or not all(map(_is_count, reasons.values())):
            return None
        if len(reasons) > MAX_REASONS or max(map(len, (topic_id, *reasons))) > _LONGEST:
            return None
        return cls(topic_id, reasons, clip(unquote(found.get(_FIRST, "")), MOST_FIRST))


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0
