"""
Lists the published editions of the delivery rules: a row each, every value with its source.

Quotations are the editions' own words, in English. Where an edition contradicts itself, the row
says which reading holds; docs/delivery-profiles.md says why.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

from shared.delivery.delivery_profile import (
    DelayedDelivery,
    DeliveryProfile,
    EndpointRules,
    Feature,
    Limits,
    RetrySchedule,
)
from shared.delivery.outcome import Outcome
from shared.http import Failure
from shared.subscriptions.destination import EndpointType

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)

# "200 OK, 201 Created, 202 Accepted, 203 Non-Authoritative Information, 204 No Content"
_SUCCESS = frozenset({200, 201, 202, 203, 204})

# "10 seconds, 30 seconds, 1 minute, 5 minutes, 10 minutes, 30 minutes, 1 hour": in every edition
# but that of namespaces, and waits after a failure (contract §3.4). "a small randomization" has no
# published number: the share and the limit of `RetrySchedule` are ours (3.2).
_FIRST_STEPS = (
    10 * SECOND,
    30 * SECOND,
    1 * MINUTE,
    5 * MINUTE,
    10 * MINUTE,
    30 * MINUTE,
    1 * HOUR,
)

# "LastDeliveryOutcome: Probation", the same table in 2023 and for namespaces. ``Disabled``,
# ``Full`` and ``InvalidAzureFunctionDestination`` come from endpoints that are not delivered to.
_PROBATION = {
    Outcome.BUSY: 10 * SECOND,
    Outcome.TIMED_OUT: 10 * SECOND,
    Outcome.SOCKET_ERROR: 30 * SECOND,
    Outcome.NOT_FOUND: 5 * MINUTE,
    Outcome.RESOLUTION_ERROR: 5 * MINUTE,
    Outcome.UNAUTHORIZED: 5 * MINUTE,
    Outcome.FORBIDDEN: 5 * MINUTE,
}

# "if the first 10 events published to an endpoint fail … delay all subsequent retries and new
# deliveries for some time - in some cases up to several hours": the numbers are ours (3.6).
_DELAYED = DelayedDelivery(failures=10, first_hold=1 * MINUTE, longest_hold=4 * HOUR)

# "If the endpoint responds within 3 minutes, Event Grid attempts to remove the event from the retry
# queue on a best effort basis"
_LATE = 3 * MINUTE

_PAGE = '"Event Grid message delivery and retry"'

_2017 = DeliveryProfile(
    name="2017",
    edition=f"{_PAGE}, 2017-08-11",  # 004_87a4ae9b1b416e30.txt
    # "within 60 seconds of the first delivery attempt": of each attempt
    acknowledgement_timeout=60 * SECOND,
    # "200 OK, 202 Accepted"
    success_codes=frozenset({200, 202}),
    # The list ends with 1 hour: the eighth attempt is the last, and waits for its expiry.
    schedule=RetrySchedule(steps=_FIRST_STEPS, tail=None),
    # "expires all events that are not delivered within two hours"; no number of attempts is named.
    limits=Limits(time_to_live=(2 * HOUR, 2 * HOUR, 2 * HOUR), attempts=None),
    # "Any other response code or a lack of a response indicates a failure. Event Grid retries".
    endpoints=dict.fromkeys(EndpointType, EndpointRules()),
    features=frozenset(),
)

# "Failure codes": the same rows for every endpoint.
_2019_RULES = EndpointRules(
    # "400 … dead-letter immediately if dead-letter is set up", 413 likewise
    never_retried=frozenset({400, 413}),
    minimum_delay={
        400: 5 * MINUTE,
        401: 5 * MINUTE,
        403: 5 * MINUTE,
        404: 5 * MINUTE,
        408: 2 * MINUTE,
        413: 10 * SECOND,
        503: 30 * SECOND,
    },
    other_minimum_delay=10 * SECOND,
)
_2019 = DeliveryProfile(
    name="2019",
    edition=f"{_PAGE}, 2019-05-15",  # 000_4c1b8d9f8c5afe06.txt
    # "Event Grid waits 30 seconds for a response after delivering a message."
    acknowledgement_timeout=30 * SECOND,
    success_codes=_SUCCESS,
    # "…, 1 hour, hourly for up to 24 hours"
    schedule=RetrySchedule(steps=_FIRST_STEPS, tail=1 * HOUR),
    # "maximum number of delivery attempts (default is 30) and event time-to-live (default 1440
    # minutes)"; the ranges are those of the next editions.
    limits=Limits(time_to_live=(DAY, MINUTE, DAY), attempts=(30, 1, 30)),
    endpoints=dict.fromkeys(EndpointType, _2019_RULES),
    features=frozenset({Feature.DEAD_LETTERS, Feature.RETRY_POLICY}),
    final_only_with_dead_letter=True,
    # "There is a five-minute delay between the last attempt …", "If the dead-letter location has
    # been unavailable for four hours, the event is dropped.": the defaults of every edition. That a
    # missing container drops at once is said from 2023 on; earlier editions don't say.
    late_answers_for=_LATE,
    delayed_delivery=_DELAYED,
)

_MINIMUMS = {408: 2 * MINUTE, 503: 30 * SECOND}
_2020 = replace(
    _2019,
    name="2020",
    edition=f"{_PAGE}, 2020-10-29",  # 001_3623f86e96800501.txt
    # "…, 3 hours, 6 hours, every 12 hours up to 24 hours"
    schedule=RetrySchedule(steps=(*_FIRST_STEPS, 3 * HOUR, 6 * HOUR), tail=12 * HOUR),
    endpoints={
        # "Webhook: 400, 413, 403, 404, 401"; the 5 minutes of 401 and 404 are for Azure resources.
        # Every one of them ends the event, not only 400 and 413.
        EndpointType.WEBHOOK: EndpointRules(
            never_retried=frozenset({400, 401, 403, 404, 413}),
            minimum_delay=_MINIMUMS,
            other_minimum_delay=10 * SECOND,
        ),
        # The row of Azure resources: "400, 413, 403".
        EndpointType.AZURE: EndpointRules(
            never_retried=frozenset({400, 403, 413}),
            minimum_delay=_MINIMUMS | {401: 5 * MINUTE, 404: 5 * MINUTE},
            other_minimum_delay=10 * SECOND,
        ),
    },
    features=frozenset(Feature),
    final_only_with_dead_letter=False,
)

_2023 = replace(
    _2020,
    name="2023",
    edition=f"{_PAGE}, 2023-03-01",  # 003_06d8b71ec32a839d.txt
    endpoints={
        # "Webhook: 400, 413, 401"; 403 by the table of failure codes, "Not retried". 404 is
        # no longer listed: it is retried, after 5 minutes at least.
        EndpointType.WEBHOOK: EndpointRules(
            never_retried=frozenset({400, 401, 403, 413}),
            minimum_delay=_MINIMUMS | {404: 5 * MINUTE},
            other_minimum_delay=10 * SECOND,
        ),
        # "Azure Resources: 400, 413"; 403 as above.
        EndpointType.AZURE: _2020.endpoints[EndpointType.AZURE],
    },
    probation=_PROBATION,
)

_LATEST = replace(
    _2023,
    name="latest",
    # 403 is back in both rows of what is never retried: the values of our reading of 2023.
    edition=f"{_PAGE}, 2026-02-09",
)

_NS_RULES = EndpointRules(
    # "404 NotFound, 401 Unauthorized, 403 Forbidden, 400 BadRequest, 414 RequestUriTooLong"; 413 by
    # the table of failure codes, "Not retried". 401 and 404 are final for webhooks.
    never_retried=frozenset({400, 401, 403, 404, 413, 414}),
    # "TimeoutException, OperationCanceledException, SocketException": no answer is final, an answer
    # of 408 is not. "ArgumentException": of the event no request can be made.
    # "UnauthorizedAccessException": no token is given for the webhook.
    final_failures=frozenset(
        {
            *(Failure.TIMED_OUT, Failure.SOCKET, Failure.TLS, Failure.RESOLUTION),
            *(Failure.UNSENDABLE, Failure.UNAUTHORIZED),
        }
    ),
    minimum_delay=_MINIMUMS,
    other_minimum_delay=10 * SECOND,
)
_NS = DeliveryProfile(
    name="ns",
    # 002_cb1c0dd561928730.txt
    edition='"Message push delivery and retry with namespace topics", 2024-05-08',
    # Not stated; "only ask for as many events per batch as they can handle in 30 seconds".
    acknowledgement_timeout=30 * SECOND,
    success_codes=_SUCCESS,
    # "(0 seconds, 10 seconds, 30 seconds, 1 minute, 5 minutes, 10 minutes, 15 minutes, 20
    # minutes)": ages, the first attempt at 0; "continues to retry every 5 minutes". Jitter is
    # not stated: that of the other editions only spreads attempts, and never makes one early.
    schedule=RetrySchedule(
        steps=(10 * SECOND, 30 * SECOND, 1 * MINUTE, 5 * MINUTE), tail=5 * MINUTE, by_age=True
    ),
    # "an integer between 1 and 10. The default value is 10."; retention "PT1M" to "7 days", by
    # default the longest. Another document's limit of a day can't bind: the tenth attempt of a
    # webhook comes within an hour.
    limits=Limits(time_to_live=(7 * DAY, MINUTE, 7 * DAY), attempts=(10, 1, 10)),
    endpoints={
        EndpointType.WEBHOOK: _NS_RULES,
        # Of 401 and 404: "retry after 5 minutes or more for Azure resource endpoints".
        EndpointType.AZURE: replace(
            _NS_RULES,
            never_retried=_NS_RULES.never_retried - {401, 404},
            minimum_delay=_MINIMUMS | {401: 5 * MINUTE, 404: 5 * MINUTE},
        ),
    },
    features=frozenset(Feature),
    probation=_PROBATION,
)

PROFILES: Mapping[str, DeliveryProfile] = {
    row.name: row for row in (_2017, _2019, _2020, _2023, _LATEST, _NS)
}
