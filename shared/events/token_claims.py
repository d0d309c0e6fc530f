"""Reads the principal and roles of an Entra ID access token, and names its possible faults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

_PRINCIPALS = ("oid", "azp", "appid", "sub")  # the principal, else the client, else the subject


class Role(StrEnum):
    """A role in the ``roles`` of a token, named as Azure's roles are."""

    DATA_SENDER = "EventGrid Data Sender"
    CONTRIBUTOR = "EventGrid Contributor"
    READER = "EventGrid Reader"


class TokenFault(StrEnum):
    """The reason why a token is refused, as callers see it."""

    UNREADABLE = "Unable to read access token."
    SIGNATURE = "The access token is not signed with RS256 by a key of the issuer."
    EXPIRED = "The access token has expired."
    NOT_YET_VALID = "The access token is not valid yet."
    AUDIENCE = "The access token is for another audience."
    ISSUER = "The access token is from another issuer."
    INCOMPLETE = "The access token lacks a claim: iss, aud and exp are needed."


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """The claims of a valid token."""

    principal: str
    roles: frozenset[str]

    @classmethod
    def from_token(cls, claims: Mapping[str, Any]) -> Claims:
        """
        Read the claims of a validated token.

        Source: Microsoft identity platform "Access token claims reference" (2024-07).
        """
        named = (claims.get(name) for name in _PRINCIPALS)
        roles = claims.get("roles")
        if isinstance(roles, str):
            roles = [roles]
        listed = roles if isinstance(roles, list) else []
        return cls(
            principal=next((name for name in named if isinstance(name, str)), ""),
            roles=frozenset(_without_spaces(role) for role in listed if isinstance(role, str)),
        )

    def grant(self, role: Role) -> bool:
        """Tell whether *role* is granted; the spaces of its name are optional."""
        return _without_spaces(role) in self.roles


def _without_spaces(role: str) -> str:
    """Remove spaces, which Entra ID does not allow in the value of an app role."""
    return role.replace(" ", "")
