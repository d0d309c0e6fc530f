"""Reads the events of an authorized publish request."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from shared.clip import clip
from shared.errors import InvalidEvents, TooLarge
from shared.events import cloudevents_schema, custom_schema, eventgrid_schema
from shared.events.data_plane import data_plane
from shared.events.event import Event
from shared.events.schema_rules import Arrival
from shared.events.topic import InputSchema, Topic
from shared.http import HttpRequest

_Parser = Callable[[HttpRequest, Topic, Arrival], tuple[Event, ...]]
_PARSERS: Mapping[InputSchema, _Parser] = {
    InputSchema.EVENT_GRID: eventgrid_schema.parse,
    InputSchema.CLOUD_EVENTS: cloudevents_schema.parse,
    InputSchema.CUSTOM: custom_schema.parse,
}


def read_events(request: HttpRequest, topic: Topic, arrival: Arrival) -> tuple[Event, ...]:
    """
    Return the events of an authorized request, at least one.

    Raises:
        InvalidEvents: the api-version is unknown, or an event doesn't conform to the schema.
        TooLarge: the request or an event is too large.
        UnsupportedMediaType: the schema does not allow the content type.
        Unauthenticated: an event names another topic.

    Source: order of checks as observed (contract §1.6).
    """
    _check_api_version(request)
    limit = data_plane(request).max_request_size
    if len(request.body) > limit:
        raise TooLarge(f"The maximum size ({limit}) has been exceeded.")
    return _PARSERS[topic.input_schema](request, topic, arrival)


def _check_api_version(request: HttpRequest) -> None:
    served = data_plane(request).api_versions
    version = request.query.get("api-version", served[-1])
    if version not in served:
        message = f"The api-version '{clip(version)}' is not supported. Use '{served[-1]}'."
        raise InvalidEvents(message, detail_code="UnsupportedApiVersion")
