"""What the fixture `pushgrid` gives: a deployment in memory, whose clock the test advances."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from datetime import datetime, timedelta
from difflib import get_close_matches
from typing import Any

from pushgrid.testing.composition import ACCOUNT
from pushgrid.testing.driven_app import ACCOUNT_ID, DrivenApp
from pushgrid.testing.topic import StorageAccount, Topic, checked_properties, refuse_unknown_members
from shared.arm.document_names import NAMESPACE_TOPIC, TOPIC
from shared.delivery.profiles import PROFILES
from shared.events.topic import InputSchema

_UNITS = ("weeks", "days", "hours", "minutes", "seconds", "milliseconds", "microseconds")


class Pushgrid:
    """
    The whole app in the test's thread, on storage in memory, until *until_end* is closed.

    What is due now is done as soon as something is published; what is due later, when the test
    advances the clock.
    """

    def __init__(self, until_end: ExitStack) -> None:
        self._app = DrivenApp(until_end)
        self._storage_account: StorageAccount | None = None

    @property
    def url(self) -> str:
        """Its URL; whoever sends requests there with `requests` is answered in process."""
        return self._app.url

    @property
    def admin_key(self) -> str:
        """The bearer token of its management API."""
        return self._app.admin_key

    @property
    def now(self) -> datetime:
        """The time in the test, in UTC."""
        return self._app.now

    def topic(
        self,
        name: str,
        *,
        namespace: str | None = None,
        profile: str | None = None,
        **properties: Any,
    ) -> Topic:
        """
        Create a custom topic, or a topic of *namespace*.

        *properties* are those of its ARM document, such as ``inputSchema``. *profile* is the
        edition of the delivery rules.

        Raises:
            Refused: the document is not valid.
            TypeError: a topic has no such property.
        """
        names = NAMESPACE_TOPIC if namespace else TOPIC
        properties = checked_properties("a topic", properties, names)
        tags = {"deliveryProfile": profile} if profile else {}
        if namespace:
            self.arm("PUT", f"namespaces/{namespace}", {"location": "testing"})
            path = f"namespaces/{namespace}/topics/{name}"
            made = self.arm("PUT", path, {"properties": properties})
        else:
            document = {"location": "testing", "tags": tags, "properties": properties}
            made = self.arm("PUT", f"topics/{name}", document)
        refuse_unknown_members("a topic", properties, made["properties"])
        return Topic(
            self._app,
            name,
            namespace,
            input_schema=InputSchema(made["properties"]["inputSchema"]),
            profile=PROFILES[profile or ("ns" if namespace else "latest")],
        )

    @property
    def storage_account(self) -> StorageAccount:
        """The storage account of the deployment, whose events announce changes of blobs."""
        if self._storage_account is None:
            self._storage_account = StorageAccount(self._app, ACCOUNT, ACCOUNT_ID)
        return self._storage_account

    def arm(self, method: str, path: str, document: Mapping[str, Any] | None = None) -> Any:
        """
        Call the management API; return the document of its answer, or ``None``.

        *path* begins with ``/``, or goes on from the resource provider: ``topics/orders``.

        Raises:
            Refused: the answer is an error.
        """
        return self._app.arm(method, path, document)

    def advance(self, by: timedelta = timedelta(), **units: float) -> None:
        """
        Let time pass: ``advance(minutes=1)``. Retries, timers and waits happen when they are due.

        Raises:
            AssertionError: the first that a handler raised.
            TypeError: that is no time.
            Unsettled: at some moment there was no end to what was due.
            ValueError: it is in the past.
        """
        self._app.advance(_span(by, units))

    def randomize(self, seed: int) -> None:
        """Add Event Grid's jitter to retries from now on, drawn from *seed*."""
        self._app.randomize(seed)


def _span(by: object, units: Mapping[str, float]) -> timedelta:
    if not isinstance(by, timedelta):
        raise TypeError(f"advance({by!r}): name the unit, as in advance(minutes={by!r})")
    for unit in units:
        if unit not in _UNITS:
            near = get_close_matches(unit, _UNITS, 1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(_UNITS)}"
            raise TypeError(f"advance has no unit {unit}: {hint}")
    span = by + timedelta(**units)
    if span < timedelta():
        raise ValueError(f"advance: {span.total_seconds():g} s are in the past")
    return span
