"""Reads the texts of deliveries that lie in payload blobs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from shared.delivery.delivery import Delivery
from shared.engine.ports import PayloadStore


def with_texts(deliveries: Sequence[Delivery], payloads: PayloadStore) -> list[Delivery]:
    """
    Return each delivery with its event's text, but those whose payload blob is missing.

    Raises:
        StorageUnavailable: a blob can't be read now.
    """
    names = dict.fromkeys(each.origin.payload for each in deliveries if each.text is None)
    blobs = {name: payloads.read(name) for name in names if name}
    return [
        each if each.text is not None else replace(each, text=_line(blobs, each))
        for each in deliveries
    ]


def _line(blobs: dict[str, Sequence[str] | None], delivery: Delivery) -> str | None:
    lines = blobs.get(delivery.origin.payload or "") or ()
    line = delivery.origin.first_line + delivery.position
    return (lines[line] or None) if line < len(lines) else None
