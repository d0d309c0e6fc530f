"""Matches events against the filter of a subscription."""

from __future__ import annotations

from dataclasses import dataclass

from shared.subscriptions.advanced_filter import AdvancedFilter
from shared.subscriptions.event_values import EventValues


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFilter:
    """
    The conditions under which a subscription gets an event; all of them must match.

    The text to compare with is already case-folded: *included_event_types*, where ``None`` means
    all types, and prefix and suffix of the subject unless *is_subject_case_sensitive*.
    """

    included_event_types: frozenset[str] | None = None
    subject_begins_with: str = ""
    subject_ends_with: str = ""
    is_subject_case_sensitive: bool = False
    advanced: tuple[AdvancedFilter, ...] = ()

    @property
    def weight(self) -> int:
        """Return how many comparisons an event may need, and one for itself."""
        return 1 + sum(1 + len(each.values) for each in self.advanced)

    def matches(self, values: EventValues) -> bool:
        """
        Tell whether the event with these *values* is wanted.

        Event types are compared without case, and so are subjects unless the filter says
        otherwise. Prefix and suffix are plain text, without wildcards.

        Source: Event Grid "Understand event filtering" (2022-09-09).
        """
        types = self.included_event_types
        if types is not None and values.event_type not in types:
            return False
        prefix, suffix = self.subject_begins_with, self.subject_ends_with
        if prefix or suffix:
            is_exact = self.is_subject_case_sensitive
            subject = values.subject if is_exact else values.folded_subject
            if not (subject.startswith(prefix) and subject.endswith(suffix)):
                return False
        return all(each.matches(values) for each in self.advanced)


MATCH_ALL = EventFilter()
