"""Builds the verifiers of access tokens from Entra ID, and who operators are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.wiring.process import once, threads
from shared.wiring.settings import settings

if TYPE_CHECKING:
    from shared.adapters.entra.access_tokens import EntraTokenVerifier, SigningKeys
    from shared.engine.operations.operator_authorization import Operators
    from shared.engine.ports import Pusher


@once
def publisher_tokens() -> EntraTokenVerifier | None:
    return _verifier(settings().entra_audience)


@once
def operators() -> Operators:
    from shared.engine.operations.operator_authorization import Operators

    audiences = settings().entra_management_audience
    return Operators(
        admin_key=settings().admin_key,
        admin_key_2=settings().admin_key_2,
        reader_key=settings().reader_key,
        tokens=_verifier(audiences),
        audience=audiences[0] if audiences else "",
    )


def _verifier(audiences: tuple[str, ...]) -> EntraTokenVerifier | None:
    """Return the verifier for *audiences*, which clients write with and without a slash."""
    if not settings().has_entra:
        return None
    from shared.adapters.entra.access_tokens import EntraTokenVerifier

    either = [form for each in audiences for form in (each.rstrip("/"), f"{each.rstrip('/')}/")]
    return EntraTokenVerifier(_signing_keys(), issuers=settings().entra_issuer, audiences=either)


@once
def _signing_keys() -> SigningKeys:
    from shared.adapters.entra.access_tokens import SigningKeys

    return SigningKeys(settings().entra_jwks_url or "", _pusher, threads())


def _pusher() -> Pusher:
    """Return the sender that fetches keys; only the first token needs it."""
    from shared.wiring.outbound import pusher

    return pusher()
