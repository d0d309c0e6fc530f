"""Warns about valid filters and header paths that match almost no event."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from shared.arm.delivery_attributes_codec import attribute_mappings
from shared.arm.sections import Document
from shared.clip import clip
from shared.events.topic import InputSchema

MAX_WARNINGS = 25  # of one subscription: a filter can have any number of event types
_SHOWN = 128  # characters of a text that is at fault

# Names of Event Grid's schema, which its documents and its portal have offered for CloudEvents too.
_CLOUD_EVENTS_NAMES = {
    "dataversion": "dataschema",
    "eventid": "id",
    "eventtime": "time",
    "eventtype": "type",
    "eventtypeversion": "dataschema",
    "topic": "source",
}
_ATTRIBUTE = re.compile(r"[a-z0-9]+|data_base64", re.ASCII)
_ESCAPE = re.compile(r"[\[\]'\"`\\]")  # as other languages write names with dots, and elements
_TORN = re.compile(r"[@:/]")  # before a full stop: "@odata.type", "http://schemas.example/name"


def subscription_warnings(stored: Document) -> list[str]:
    """
    Return what matches almost no event in an event subscription's version, and what to write.

    Event Grid accepts all of it, so it stays accepted.

    Source: contract §5.7.
    """
    return list(islice(_warnings(stored), MAX_WARNINGS))


def _warnings(stored: Document) -> Iterator[str]:
    properties = stored["properties"]
    kept = properties["filter"]
    for name in kept.get("includedEventTypes", ()):
        if not name.strip():
            yield "includedEventTypes has an empty text, which no event has: leave it out."
            continue
        yield from _of_text("includedEventTypes", name, name.strip())
        yield from _of_wildcard("includedEventTypes", name, "each type in full")
    prefix, suffix = kept["subjectBeginsWith"], kept["subjectEndsWith"]
    yield from _of_text("subjectBeginsWith", prefix, prefix.lstrip())
    yield from _of_text("subjectEndsWith", suffix, suffix.rstrip())
    if prefix.endswith("*"):
        yield from _of_wildcard("subjectBeginsWith", prefix, f"'{_shown(prefix.rstrip('*'))}'")
    if suffix.startswith("*"):
        yield from _of_wildcard("subjectEndsWith", suffix, f"'{_shown(suffix.lstrip('*'))}'")
    for each in kept.get("advancedFilters", ()):
        if stored["inputSchema"] == InputSchema.CLOUD_EVENTS:
            yield from _of_attribute(each["key"])
        yield from _of_path(each["key"])
    for mapping in attribute_mappings(properties["destination"]):
        yield from _of_path(mapping["properties"].get("sourceField", ""))


def _of_text(member: str, text: str, right: str) -> Iterator[str]:
    if text != right:
        yield (
            f"{member} has '{_shown(text)}', with a blank around it, which hardly any event has: "
            f"write '{_shown(right)}'."
        )


def _of_wildcard(member: str, text: str, right: str) -> Iterator[str]:
    if "*" in text:
        yield f"{member} has '{_shown(text)}', but there are no wildcards: write {right}."


def _of_attribute(key: str) -> Iterator[str]:
    """Warn of a key that is no path into ``data``, and hardly an attribute of a CloudEvent."""
    name = key.lower()
    if right := _CLOUD_EVENTS_NAMES.get(name):
        yield (
            f"The key '{key}' is an extension in CloudEvents, which hardly any event has: "
            f"write '{right}'."
        )
    elif not name.startswith("data.") and not _ATTRIBUTE.fullmatch(name):
        yield (
            f"The key '{_shown(key)}' can't be in a CloudEvent: names of attributes have only "
            "letters and digits. Write the attribute's name alone or, for a value in data, "
            "'data.NAME'."
        )


def _of_path(path: str) -> Iterator[str]:
    """Warn of names that a path can't have as they are meant."""
    first, *names = path.split(".")
    stripped = ".".join((first, *(each.strip() for each in names)))
    yield from _of_text("A path", path, stripped)
    if any(map(_ESCAPE.search, names)) or any(map(_TORN.search, names[:-1])):
        yield (
            f"The path '{_shown(path)}' hardly leads to a value: each full stop separates two "
            "names, and nothing leads to a name that has one, nor to an element of an array. "
            "Use a member whose name has no full stop; the publisher may have to add one."
        )


def _shown(text: str) -> str:
    return clip(text, _SHOWN)
