"""Defines where the events of a subscription go: to a webhook, or into a storage queue."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar

from shared.http import Audience

KEPT_SECONDS = 7 * 24 * 3600  # a message that nobody receives, by default: what a queue does itself


class EndpointType(StrEnum):
    """Kinds of endpoint that the delivery rules tell apart."""

    WEBHOOK = "webhook"
    AZURE = "azure"


@dataclass(frozen=True, slots=True)
class WebHook:
    """An HTTP endpoint, whose query may be secret."""

    kind: ClassVar[EndpointType] = EndpointType.WEBHOOK
    url: str = field(repr=False)
    audience: Audience | None = None  # of its tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageQueue:
    """A queue of a storage account."""

    kind: ClassVar[EndpointType] = EndpointType.AZURE
    audience: ClassVar[Audience | None] = None
    account_id: str  # its ARM id
    name: str
    keep_seconds: int = KEPT_SECONDS  # for a message that nobody receives; -1: for ever

    @property
    def account(self) -> str:
        """The account's name."""
        return self.account_id.rpartition("/")[2]

    @property
    def url(self) -> str:
        """The queue's ARM id, by which Azure CLI names it as an endpoint."""
        return f"{self.account_id}/queueServices/default/queues/{self.name}"


Destination = WebHook | StorageQueue
