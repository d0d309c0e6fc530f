"""
Gets tokens from Entra ID for webhooks that it protects.

They come from a credential that is configured for this purpose alone, never from the identity that
reads storage: subscriptions choose the audience of a token.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
import time
from collections.abc import Callable, Coroutine
from datetime import timedelta
from functools import lru_cache, partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NamedTuple

from shared import telemetry
from shared.clock import Clock
from shared.engine.ports import OffLoop, Pusher
from shared.errors import StorageUnavailable, is_shortage
from shared.http import Audience, Exchange, Failure, LateAnswerHandler, NotAnswered, OutboundRequest

if TYPE_CHECKING:
    from azure.core.credentials import TokenCredential

RENEWED_AHEAD = timedelta(minutes=5)  # of a token's end: longer than any invocation pushes
FAILED_FOR = timedelta(seconds=30)  # until it is tried again
SHORT_FOR = timedelta(seconds=1)  # after a local shortage
_MOST_TENANTS = 100
_MOST_TOKENS = 10_000
_MOST_DETAIL = 500
_LIMITS: dict[str, Any] = {"connection_timeout": 5, "read_timeout": 10, "retry_total": 1}

CredentialFor = Callable[[str], "TokenCredential"]


class _TokenResult(NamedTuple):
    """A token, or why there is none."""

    token: str
    seconds: float  # until it is to be renewed
    left: float  # seconds for which it is valid
    failure: Failure = Failure.UNAUTHORIZED
    detail: str = ""


class WebhookTokens:
    """
    Tokens for webhooks, each of which is fetched once, and kept until shortly before its end.

    *credential_for* returns the credential for a tenant; ``None``: none is configured. It blocks,
    and *run* has a thread call it. *monotonic* is in seconds.
    """

    def __init__(
        self,
        credential_for: CredentialFor | None,
        clock: Clock,
        run: OffLoop,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._credential_for = credential_for
        self._clock = clock
        self._run = run
        self._monotonic = monotonic
        self._kept: dict[Audience, tuple[_TokenResult, float]] = {}  # each since then
        self._under_way: dict[Audience, asyncio.Task[_TokenResult]] = {}

    async def get(self, audience: Audience) -> _TokenResult:
        """
        Return the token for *audience*, or why there is none. Never raises.

        While one request waits for a new one, the others get the old, if it is still valid.
        """
        kept, since = self._kept.get(audience, (None, 0.0))
        age = self._monotonic() - since
        if kept and age < kept.seconds:
            return kept
        fetch = self._under_way.get(audience)
        if fetch and kept and age < kept.left:
            return kept
        if fetch is None:
            context = telemetry.own_context()  # it may outlive the invocation that began it
            fetch = asyncio.get_running_loop().create_task(self._fetch(audience), context=context)
            self._under_way[audience] = fetch
        return await asyncio.shield(fetch)

    async def _fetch(self, audience: Audience) -> _TokenResult:
        try:
            got = await self._run(partial(self._ask, audience))
        except StorageUnavailable:
            got = _none("there is no thread to ask with", Failure.SHORTAGE, SHORT_FOR)
        finally:
            del self._under_way[audience]
        self._kept.pop(audience, None)
        self._kept[audience] = got, self._monotonic()
        if len(self._kept) > _MOST_TOKENS:
            del self._kept[next(iter(self._kept))]
        return got

    def _ask(self, audience: Audience) -> _TokenResult:
        if self._credential_for is None:
            return _none("no credential is configured for webhooks")
        from azure.core.exceptions import AzureError

        try:
            credential = self._credential_for(audience.tenant)
            token = credential.get_token(f"{audience.application.rstrip('/')}/.default")
        except Exception as error:
            is_ours = is_shortage(error) or is_shortage(_inner(error))
            if not (is_ours or isinstance(error, AzureError | ValueError)):
                raise
            detail = f"{type(error).__name__}: {error}"[:_MOST_DETAIL]
            telemetry.error("token.failed", **audience._asdict(), detail=detail)
            if is_ours:
                return _none(detail, Failure.SHORTAGE, SHORT_FOR)
            return _none(detail, _failure(error))
        left = token.expires_on - self._clock.now().timestamp()
        return _TokenResult(token.token, left - RENEWED_AHEAD.total_seconds(), left)


def _none(
    detail: str, failure: Failure = Failure.UNAUTHORIZED, kept_for: timedelta = FAILED_FOR
) -> _TokenResult:
    seconds = kept_for.total_seconds()
    return _TokenResult("", seconds, seconds, failure, detail)


def _inner(error: Exception) -> BaseException:
    """Return the transport's error, which the SDK keeps as an attribute."""
    return getattr(error.__cause__, "inner_exception", None) or error


def _failure(error: Exception) -> Failure:
    """Tell a refusal, which only an operator can change, from an outage of Entra ID."""
    # azure-identity raises its one error from whatever kept it from getting an answer.
    is_refusal = isinstance(error.__cause__, ValueError | None)
    return Failure.UNAUTHORIZED if is_refusal else Failure.NO_AUTHORITY


class TokenPusher:
    """Pusher that adds the token to requests that need one; without it nothing is sent."""

    def __init__(self, pusher: Pusher, tokens: WebhookTokens) -> None:
        self._pusher = pusher
        self._tokens = tokens

    def send(
        self,
        request: OutboundRequest,
        timeout: timedelta,
        late: LateAnswerHandler | None = None,
    ) -> Coroutine[Any, Any, Exchange]:
        if request.audience is None:
            return self._pusher.send(request, timeout, late)
        return self._send(request, request.audience, timeout, late)

    async def _send(
        self,
        request: OutboundRequest,
        audience: Audience,
        timeout: timedelta,
        late: LateAnswerHandler | None,
    ) -> Exchange:
        got = await self._tokens.get(audience)
        if not got.token:
            return NotAnswered(got.failure, got.detail, 0)
        headers = {**request.headers, "Authorization": f"Bearer {got.token}"}
        return await self._pusher.send(request._replace(headers=headers), timeout, late)


def credential_for(
    client_id: str, *, secret: str | None, certificate: str | None, authority: str
) -> CredentialFor:
    """
    Return a function that makes the credential of an application in a tenant.

    *certificate* is PEM with its key, or PKCS #12 in Base64 as Key Vault gives it; it wins over
    *secret*. *authority* is the URL of Entra ID.
    """

    @lru_cache(_MOST_TENANTS)
    def make(tenant: str) -> TokenCredential:
        from azure.core.pipeline.policies import RetryPolicy
        from azure.identity import CertificateCredential, ClientSecretCredential

        class Retries(RetryPolicy[Any, Any]):
            """Tries again at once, and not when a Retry-After says: deliveries wait."""

            def get_retry_after(self, response: Any) -> None:
                pass

        for name in ("azure.identity", "msal"):
            logging.getLogger(name).setLevel(logging.WARNING)
        settings = _LIMITS | {
            "authority": authority,
            "disable_instance_discovery": True,
            "raw_response_hook": _raise_if_throttled,
            "retry_policy_class": Retries,
        }
        if certificate:
            data = _certificate(certificate)
            return CertificateCredential(tenant, client_id, certificate_data=data, **settings)
        return ClientSecretCredential(tenant, client_id, secret or "", **settings)

    return make


def _raise_if_throttled(response: Any) -> None:
    """Keep azure-identity from taking a 429 for a refusal."""
    from azure.core.exceptions import ServiceResponseError

    if response.http_response.status_code == HTTPStatus.TOO_MANY_REQUESTS:
        raise ServiceResponseError("Entra ID answered 429 Too Many Requests")


def _certificate(text: str) -> bytes:
    if "-----BEGIN" in text:
        return text.replace("\\n", "\n").encode()
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(
            "the certificate for webhooks is neither PEM nor Base64-encoded PKCS #12"
        ) from error
