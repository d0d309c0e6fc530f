"""Which events a subscription wants; knows nothing of how they are delivered."""

from __future__ import annotations

from shared.subscriptions.facts import Facts
from shared.subscriptions.subscription import EventFilter


def matches(event_filter: EventFilter, facts: Facts) -> bool:
    """
    Tell whether a subscription with *event_filter* wants the event of *facts*: all must match.

    Event types are compared whatever their case, and so are subjects unless the filter says
    otherwise. Prefix and suffix are plain text, without wildcards.

    Source: Event Grid "Understand event filtering" (2022-09-09).
    """
    types = event_filter.included_event_types
    if types is not None and facts.event_type not in types:
        return False
    prefix, suffix = event_filter.subject_begins_with, event_filter.subject_ends_with
    if prefix or suffix:
        is_exact = event_filter.is_subject_case_sensitive
        subject = facts.subject if is_exact else facts.folded_subject
        if not (subject.startswith(prefix) and subject.endswith(suffix)):
            return False
    return all(each.matches(facts) for each in event_filter.advanced)
