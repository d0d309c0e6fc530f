"""Which events a subscription wants; knows nothing of how they are delivered."""

from __future__ import annotations

from shared.events.event import Event
from shared.subscriptions.subscription import EventFilter


def matches(event_filter: EventFilter, event: Event) -> bool:
    """
    Tell whether a subscription with *event_filter* wants *event*: everything must match.

    Event types are compared whatever their case, and so are subjects unless the filter says
    otherwise. Prefix and suffix are plain text, without wildcards.

    Source: Event Grid "Understand event filtering" (2022-09-09).
    """
    types = event_filter.included_event_types
    if types is not None and event.event_type.casefold() not in types:
        return False
    prefix, suffix = event_filter.subject_begins_with, event_filter.subject_ends_with
    if not prefix and not suffix:
        return True
    subject = event.subject
    if not event_filter.is_subject_case_sensitive:
        subject = subject.casefold()
    return subject.startswith(prefix) and subject.endswith(suffix)
