"""Access tokens of Entra ID, as far as rules ask about them: who was named, with which roles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

_WHO = ("oid", "azp", "appid", "sub")  # the principal, else the client, else what is always there


class Role(StrEnum):
    """What a token's ``roles`` can grant; the names are those of Azure's roles."""

    DATA_SENDER = "EventGrid Data Sender"
    CONTRIBUTOR = "EventGrid Contributor"


class TokenFault(StrEnum):
    """Why a token is not believed, as callers read it."""

    UNREADABLE = "Unable to read access token."
    SIGNATURE = "The access token is not signed with RS256 by a key of the issuer."
    EXPIRED = "The access token has expired."
    NOT_YET_VALID = "The access token is not valid yet."
    AUDIENCE = "The access token is for another audience."
    ISSUER = "The access token is from another issuer."
    INCOMPLETE = "The access token lacks a claim: iss, aud and exp are needed."


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """What a token says that is genuine, for us and in its time. *principal* is whom it names."""

    principal: str
    roles: frozenset[str]

    @classmethod
    def from_token(cls, claims: Mapping[str, Any]) -> Claims:
        """
        Read the claims of a token.

        Source: Microsoft identity platform "Access token claims reference" (2024-07).
        """
        named = (claims.get(name) for name in _WHO)
        roles = claims.get("roles")
        if isinstance(roles, str):
            roles = [roles]
        listed = roles if isinstance(roles, list) else []
        return cls(
            principal=next((name for name in named if isinstance(name, str)), ""),
            roles=frozenset(_plain(role) for role in listed if isinstance(role, str)),
        )

    def grant(self, role: Role) -> bool:
        """Tell whether *role* is among the roles; the blanks of its name may be left out."""
        return _plain(role) in self.roles


def _plain(role: str) -> str:
    """Leave out blanks: Entra ID allows none in the value of an app's role."""
    return role.replace(" ", "")
