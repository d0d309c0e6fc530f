"""Authorizes operators and readers by their keys, or by an Entra ID token with a role for it."""

from __future__ import annotations

import hmac
import re
from dataclasses import dataclass, field
from typing import NamedTuple

from shared.engine.ports import TokenVerifier
from shared.errors import Forbidden, Unauthenticated
from shared.events.token_claims import Role, TokenFault

_AUDIENCE = re.compile(r"[A-Za-z0-9:/._-]+")  # what a scope of Entra ID, and a header, can hold


class Operator(NamedTuple):
    """Who calls, named without any secret; a reader may only read, and reads no payloads."""

    name: str
    is_reader: bool = False

    def forbidden(self, action: str) -> Forbidden:
        """Build the refusal of what a reader may not do."""
        message = (
            f"{self.name[0].upper()}{self.name[1:]} does not have authorization to perform this"
            f" action: {action} needs the admin key, or an access token with the role"
            f" '{Role.CONTRIBUTOR}'."
        )
        return Forbidden(message, detail_code="AuthorizationFailed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Operators:
    """The credentials of operators and readers; without any, all callers are refused."""

    admin_key: str | None = field(default=None, repr=False)
    # One key can be replaced while the other is in use.
    admin_key_2: str | None = field(default=None, repr=False)
    reader_key: str | None = field(default=None, repr=False)  # its caller may only read
    tokens: TokenVerifier | None = None  # reads access tokens of Entra ID
    audience: str = ""  # for which clients ask for these tokens

    def authorize(self, authorization: str | None) -> Operator:
        """
        Return who sends the header *authorization*.

        Raises:
            Unauthenticated: the credential is missing or wrong.
            Forbidden: the token is valid but lacks a role.
            SigningKeysUnavailable: the token can't be verified now.
        """
        scheme, _, token = (authorization or "").partition(" ")
        token = token.strip()
        if not any(self._keys) and self.tokens is None:
            reason = "The management API is closed: PUSHGRID_ADMIN_KEY is not set."
        elif not authorization:
            reason = "Authentication failed. The 'Authorization' header is missing."
        elif scheme.lower() != "bearer":
            reason = "Authentication failed. The 'Authorization' header is not a Bearer token."
        elif found := self.with_key(token):
            return found
        elif self.tokens is None:
            reason = "Authentication failed. The token is not a valid key."
        else:
            return self._authorized(self.tokens, token)
        raise self._refused(reason)

    def with_key(self, text: str) -> Operator | None:
        """Return whose key *text* is, in a time that doesn't depend on which, or on how near."""
        matches = [_is_equal(text, key) for key in self._keys]
        return next((who for who, fits in zip(_HOLDERS, matches, strict=True) if fits), None)

    def _authorized(self, tokens: TokenVerifier, token: str) -> Operator:
        """Return the principal of a token that has a role."""
        bearer = tokens.verify(token)
        if isinstance(bearer, TokenFault):
            is_old = bearer is TokenFault.EXPIRED
            code = "ExpiredAuthenticationToken" if is_old else "InvalidAuthenticationToken"
            raise self._refused(bearer, code)
        name = f"Entra ID principal {bearer.principal}"
        if bearer.grant(Role.CONTRIBUTOR):
            return Operator(name)
        if bearer.grant(Role.READER):
            return Operator(name, is_reader=True)
        message = (
            f"The client '{bearer.principal}' does not have authorization to perform this action:"
            f" its access token has no role '{Role.CONTRIBUTOR}' or '{Role.READER}'."
        )
        raise Forbidden(message, detail_code="AuthorizationFailed")

    def _refused(self, reason: str, code: str = "AuthenticationFailed") -> Unauthenticated:
        """Build a refusal that tells clients, as Azure Key Vault does, what to get a token for."""
        error = Unauthenticated(reason, detail_code=code)
        if self.tokens is not None and _AUDIENCE.fullmatch(self.audience):
            error.challenge = f'Bearer resource="{self.audience}"'
        return error

    @property
    def _keys(self) -> tuple[str | None, ...]:
        return self.admin_key, self.admin_key_2, self.reader_key


_HOLDERS = (  # of the keys, in their order
    Operator("the admin key"),
    Operator("the second admin key"),
    Operator("the reader's key", is_reader=True),
)


def _is_equal(text: str, key: str | None) -> bool:
    """Tell in constant time whether *text* is *key*; nothing is if there is none."""
    return hmac.compare_digest(_octets(text), _octets(key or "")) and bool(key)


def _octets(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
