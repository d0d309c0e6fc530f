"""An issuer of access tokens, as Entra ID is one."""

from __future__ import annotations

import json
import time
from functools import cache
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

TENANT = "11111111-2222-3333-4444-555555555555"
ISSUER = f"https://login.microsoftonline.com/{TENANT}/v2.0"
OLD_ISSUER = f"https://sts.windows.net/{TENANT}/"
AUDIENCE = "https://eventgrid.azure.net"
SENDER = "EventGrid Data Sender"
CONTRIBUTOR = "EventGrid Contributor"


@cache
def private_key(kid: str) -> RSAPrivateKey:
    """Make the key of that id; ``short`` is too short."""
    return generate_private_key(65537, 1024 if kid == "short" else 2048)


def public_pem(kid: str) -> bytes:
    public = private_key(kid).public_key()
    return public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def jwk(name: str, **changes: Any) -> dict[str, Any]:
    """Publish a key as Entra ID does; a member that is ``...`` is left out."""
    public = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(private_key(name).public_key()))
    document = {"kty": "RSA", "use": "sig", "kid": name, "n": public["n"], "e": public["e"]}
    return {member: value for member, value in (document | changes).items() if value is not ...}


def key_set(*keys: dict[str, Any] | str) -> bytes:
    return json.dumps({"keys": [jwk(k) if isinstance(k, str) else k for k in keys]}).encode()


def a_token(
    *,
    kid: str = "k1",
    algorithm: str = "RS256",
    key: Any = None,
    header: dict[str, Any] | None = None,
    begins_in: float = 0,
    expires_in: float = 60,
    **claims: Any,
) -> str:
    """Sign a token; times are in minutes from now, a claim that is ``...`` is left out."""
    now = int(time.time())
    begins = now + int(60 * begins_in)
    document = {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "iat": begins,
        "nbf": begins,
        "exp": now + int(60 * expires_in),
        "oid": "someone",
        "roles": [SENDER],
    } | claims
    kept = {name: value for name, value in document.items() if value is not ...}
    signer = private_key(kid) if key is None else key
    return jwt.encode(kept, signer, algorithm, headers={"kid": kid} | (header or {}))
