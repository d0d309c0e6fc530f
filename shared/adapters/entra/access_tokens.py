"""Verifies access tokens of Entra ID, by the keys that their issuer publishes."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from shared import telemetry
from shared.engine.caching.cache import PERIODS, Cache
from shared.engine.ports import Pusher, Threads
from shared.errors import SigningKeysUnavailable
from shared.events.token_claims import Claims, TokenFault
from shared.http import Answered, Exchange, OutboundRequest
from shared.subscriptions.destination import base_url

if TYPE_CHECKING:  # Cryptography is imported when the first token comes: cold starts.
    from jwt import PyJWK

ALGORITHM = "RS256"

_TIMEOUT = timedelta(seconds=4)  # to connect, and again to the end of the headers; 2 s for the body
_OLD_SECONDS = 3600.0  # then newer ones are looked for, while these serve
_PAUSE_SECONDS = 60.0  # between two fetches, while there are keys
_PAUSE_WITHOUT_KEYS_SECONDS = 5.0  # while there is none
_OK = 200

_LEEWAY = timedelta(minutes=5)  # for clocks that differ
_MAX_LENGTH = 32 * 1024  # a token with hundreds of groups is smaller
_REQUIRED = ["iss", "aud", "exp"]
_FAULTS = {  # what PyJWT raises, by name, since it is not imported yet; the rest can't be read
    "ExpiredSignatureError": TokenFault.EXPIRED,
    "ImmatureSignatureError": TokenFault.NOT_YET_VALID,
    "InvalidAudienceError": TokenFault.AUDIENCE,
    "InvalidIssuerError": TokenFault.ISSUER,
    "InvalidKeyError": TokenFault.SIGNATURE,
    "InvalidSignatureError": TokenFault.SIGNATURE,
    "MissingRequiredClaimError": TokenFault.INCOMPLETE,
}


class _KeySet(NamedTuple):
    """The keys by id."""

    keys: dict[str, PyJWK]
    fetched_at: float  # when the fetch began
    failed: bool  # the latest fetch

    @property
    def old_at(self) -> float:
        """When they are to be renewed."""
        return self.fetched_at + _OLD_SECONDS

    @property
    def ends_at(self) -> float:
        """When they verify nothing any more."""
        return self.fetched_at + PERIODS * _OLD_SECONDS


class SigningKeys:
    """
    Fetches the keys of an issuer (a JSON Web Key Set, RFC 7517), and keeps them in memory.

    Keys that can't be renewed are used until they are two hours old. ``jwt.PyJWKClient`` has no
    total deadline, follows proxies of the environment and redirects, and fetches again for every
    unknown key.
    *pusher* is called at the first fetch. Safe in any thread: one fetches, and only those wait
    whose key is not there.
    """

    def __init__(self, url: str, pusher: Callable[[], Pusher], threads: Threads) -> None:
        self._url = url
        self._pusher = pusher
        self._threads = threads
        self._monotonic = threads.monotonic
        self._latest = _KeySet({}, float("-inf"), failed=False)
        self._fetches = Cache[_KeySet](
            threads, self._pause_seconds, serve_seconds=self._seconds_left
        )

    def key(self, kid: str) -> PyJWK | None:
        """
        Return the key of that id; ``None`` if the issuer has none.

        Raises:
            SigningKeysUnavailable: it is not among the known keys, and newer ones could not be
                fetched.
        """
        latest = self._latest
        if kid not in latest.keys or self._monotonic() >= latest.old_at:
            latest = self._fetches.get(
                self._url, self._fetch, accepts_expired=lambda known: kid in known.keys
            )
        found = latest.keys.get(kid)
        if found is None and latest.failed:
            raise SigningKeysUnavailable
        return found

    def _fetch(self) -> _KeySet:
        began = self._monotonic()
        request = OutboundRequest("GET", self._url, {"Accept": "application/json"}, b"")
        exchange = self._threads.on_loop(self._pusher().send(request, _TIMEOUT))
        keys = {}
        if isinstance(exchange, Answered) and exchange.status == _OK:
            keys = _read(exchange.body)
        if keys:
            self._latest = _KeySet(keys, began, failed=False)
        else:
            url = base_url(self._url)
            telemetry.warning("signing_keys.unavailable", url=url, detail=_fault(exchange))
            known = self._latest.keys if self._seconds_left(self._latest) > 0 else {}
            self._latest = self._latest._replace(keys=known, failed=True)
        return self._latest

    def _pause_seconds(self, latest: _KeySet) -> float:
        if not latest.keys:
            return _PAUSE_WITHOUT_KEYS_SECONDS
        return min(_PAUSE_SECONDS, self._seconds_left(latest))

    def _seconds_left(self, latest: _KeySet) -> float:
        return latest.ends_at - self._monotonic()


def _fault(exchange: Exchange) -> str:
    if not isinstance(exchange, Answered):
        return f"{exchange.failure}: {exchange.detail}"
    return "no keys for RS256" if exchange.status == _OK else f"status {exchange.status}"


def _read(body: bytes) -> dict[str, PyJWK]:
    """Return the keys that verify RS256, by id; empty if it is not a key set."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    listed = document.get("keys") if isinstance(document, dict) else None
    members = listed if isinstance(listed, list) else []
    found = ((each.get("kid"), _key(each)) for each in members if isinstance(each, dict))
    return {kid: key for kid, key in found if isinstance(kid, str) and key}


def _key(member: dict[str, Any]) -> PyJWK | None:
    from jwt import PyJWK
    from jwt.exceptions import PyJWTError

    if member.get("kty") != "RSA" or member.get("use", "sig") != "sig":
        return None
    if member.get("alg", ALGORITHM) != ALGORITHM:
        return None
    try:
        return PyJWK({**member, "alg": ALGORITHM}, ALGORITHM)
    except (PyJWTError, ValueError, TypeError):
        return None


class EntraTokenVerifier:
    """
    TokenVerifier for tokens of one of *issuers* that are for one of *audiences*.

    Claims are read only after the signature; nothing in a token chooses how it is verified,
    but for the id of a key that the issuer has published.
    """

    def __init__(
        self, keys: SigningKeys, *, issuers: Sequence[str], audiences: Sequence[str]
    ) -> None:
        self._keys = keys
        self._issuers = tuple(issuers)
        self._audiences = tuple(audiences)

    def verify(self, token: str) -> Claims | TokenFault:
        """Return the claims of *token*, or the fault for which it is refused."""
        if len(token) > _MAX_LENGTH:
            return TokenFault.UNREADABLE
        from jwt import PyJWTError  # when the first token comes: cold starts

        try:
            return Claims.from_token(self._decode(token))
        except (PyJWTError, ValueError) as error:
            return _FAULTS.get(type(error).__name__, TokenFault.UNREADABLE)

    def _decode(self, token: str) -> dict[str, Any]:
        import jwt

        header = jwt.get_unverified_header(token)
        if header.get("alg") != ALGORITHM or "kid" not in header:
            raise jwt.InvalidKeyError  # before any key is asked for
        key = self._keys.key(header["kid"])
        if key is None:
            raise jwt.InvalidKeyError
        return jwt.decode(
            token,
            key,
            algorithms=[ALGORITHM],
            issuer=self._issuers,
            audience=self._audiences,
            leeway=_LEEWAY,
            options={"require": _REQUIRED, "enforce_minimum_key_length": True},
        )
