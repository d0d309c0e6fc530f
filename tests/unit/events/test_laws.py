"""Properties of all events and all requests."""

from __future__ import annotations

import contextlib
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from shared.errors import AppError
from shared.events.publish_http import read_events
from shared.events.topic import InputSchema
from tests.builders import TOPIC_ID
from tests.strategies import any_text, json_values
from tests.unit.events.publishing import (
    ARRIVAL,
    BATCH,
    STRUCTURED,
    a_request,
    a_topic,
    body_of,
    cloud_members,
    members,
    read_cloud,
    read_grid,
)

_CONTENT_TYPES = st.sampled_from([BATCH, STRUCTURED, "application/json", "text/plain"]) | st.text()


def _same(left: Any, right: Any) -> bool:
    """Compare with types and signs: 1, 1.0 and True are not the same."""
    return repr(left) == repr(right)


@given(
    events=st.lists(st.tuples(any_text, json_values), min_size=1, max_size=3), escaped=st.booleans()
)
def test_events_survive_unchanged(events, escaped):
    sent = [
        members(
            id="1", subject=subject, data=data, topic=TOPIC_ID, dataVersion="", metadataVersion="1"
        )
        for subject, data in events
    ]

    read = read_grid(json.dumps(sent, ensure_ascii=escaped).encode())

    assert _same([json.loads(event.text) for event in read], sent)
    assert all(event.text.isascii() and "\n" not in event.text for event in read)
    assert read == read_grid(f"[{','.join(event.text for event in read)}]".encode())


@given(
    event=st.fixed_dictionaries({"data": json_values, "subject": any_text, "ID": st.just("1")}),
    capitals=st.lists(st.booleans(), min_size=20),
)
def test_the_case_of_names_changes_nothing(event, capitals):
    def spelt(name: str) -> str:
        letters = zip(name, capitals, strict=False)
        return "".join(letter.upper() if capital else letter.lower() for letter, capital in letters)

    documented = members(**{name.lower(): value for name, value in event.items()})
    published = {spelt(name): value for name, value in documented.items()}

    assert read_grid(body_of(published)) == read_grid(body_of(documented))


@given(data=json_values, extension=st.booleans() | st.integers() | any_text, escaped=st.booleans())
def test_cloud_events_survive_unchanged(data, extension, escaped):
    sent = [cloud_members(data=data, tenant=extension)]

    read = read_cloud(json.dumps(sent, ensure_ascii=escaped).encode())

    assert _same([json.loads(event.text) for event in read], sent)
    assert read == read_cloud(f"[{read[0].text}]".encode())


@given(
    body=st.binary()
    | json_values.map(body_of)
    | st.dictionaries(st.sampled_from([*members(), *cloud_members()]), json_values).map(body_of),
    content_type=_CONTENT_TYPES,
    headers=st.dictionaries(
        st.sampled_from(["ce-id", "ce-source", "ce-type", "ce-specversion", "ce-x", "ce-data"]),
        st.text(st.characters()) | st.just("1.0"),
    ),
    schema=st.sampled_from([InputSchema.EVENT_GRID, InputSchema.CLOUD_EVENTS]),
)
def test_a_request_is_read_or_refused_and_never_fails(body, content_type, headers, schema):
    request = a_request(body, {"content-type": content_type, **headers})

    with contextlib.suppress(AppError):
        for event in read_events(request, a_topic(schema), ARRIVAL):
            json.loads(event.text)["id"].encode()
            event.text.encode("ascii")
