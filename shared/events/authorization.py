"""Authorizes publish requests: by network, and by key, shared access signature or token."""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from ipaddress import IPv4Address, IPv6Address, ip_address
from urllib.parse import urlsplit

from shared.clip import clip
from shared.errors import Forbidden, InvalidSignature, Unauthenticated
from shared.events.data_plane import data_plane
from shared.events.shared_access_signature import Signature
from shared.events.token_claims import Claims, Role, TokenFault
from shared.events.topic import Topic
from shared.http import HttpRequest

KEY = "aeg-sas-key"
TOKEN = "aeg-sas-token"  # noqa: S105 - a name
Address = IPv4Address | IPv6Address

_UNREADABLE_EXPIRY = (
    "The expiry of the signature (e=) can't be read. Write it in UTC, like 2030-01-31T23:59:59Z or "
    "1/31/2030 11:59:59 PM, and percent-encode it before you sign."
)

# An address with or without a port; with a port, an IPv6 address is in brackets.
_HOP = re.compile(r"\[([^\[\]]+)\](?::\d{1,5})?|([^:]+)(?::\d{1,5})?|([^\[\]]+)", re.ASCII)


def client_address(request: HttpRequest, header: str | None) -> Address | None:
    """
    Return the client's address from *header*, which the front end sets.

    The last entry of a list counts: the front end appends it, and the client can forge the others.
    ``None``: the header is missing or has no address.
    """
    if header is None:
        return None
    hop = request.headers.get(header, "").rpartition(",")[2].strip().strip('"')
    match = _HOP.fullmatch(hop)
    if match is None:
        return None
    try:
        address = ip_address(match[1] or match[2] or match[3])
    except ValueError:
        return None
    if isinstance(address, IPv6Address) and address.ipv4_mapped:
        return address.ipv4_mapped
    return address


def check_network(topic: Topic, client: Address | None) -> None:
    """
    Check that the address *client* may publish to *topic*; an unknown one satisfies no rule.

    Raises:
        Forbidden: the topic has IP rules, and none allows the address.

    Source: Event Grid "Troubleshoot errors", error code 403 (contract §1.6).
    """
    rules = topic.inbound_rules
    if rules and not (client and any(client in network for network in rules)):
        raise Forbidden(
            f"Publishing to Topic {topic.name} by client {client or 'unknown'} is rejected"
            " because of IpAddress filtering rules."
        )


def authorize(
    request: HttpRequest,
    topic: Topic,
    now: datetime,
    bearer: Claims | TokenFault | None = None,
    public_url: str | None = None,
) -> None:
    """
    Check that the request may publish to *topic*.

    *bearer* are the claims of its ``bearer_token``, or the fault of that token; ``None``: this app
    does not read access tokens. A signature can be for the URL of the request, or for the same path
    at *public_url* if a front end rewrites URLs.

    The first credential decides: the header ``aeg-sas-key``, the header ``aeg-sas-token``,
    ``Authorization`` (``SharedAccessSignature`` or ``Bearer``), then the query parameters
    ``aeg-sas-key`` and ``aeg-sas-token``. All keys of the topic are valid. Namespace topics accept
    only ``Authorization`` (``SharedAccessKey`` or ``Bearer``).

    Raises:
        InvalidSignature: the key or the signature is empty, or the signature is malformed.
        Forbidden: the topic refuses keys and signatures, or the bearer lacks the role.
        Unauthenticated: no credential, or an invalid one.

    Source: Event Grid "Authenticate with access keys or shared access signatures"; texts as
    observed (contract §1.6, §1.7).
    """
    plane = data_plane(request)
    headers = _select(request.headers, (*plane.carriers, "authorization"))
    query = _select(request.query, plane.carriers)
    if KEY in headers:
        _check_key(request, topic, headers[KEY])
    elif TOKEN in headers:
        _check_token(request, topic, headers[TOKEN], now, public_url)
    elif bearer_token(request) is not None:
        _check_bearer(request, topic, bearer)
    elif "authorization" in headers:
        _check_authorization(request, topic, headers["authorization"], now, public_url)
    elif KEY in query:
        # An unencoded plus arrives as a space, which no key contains.
        _check_key(request, topic, query[KEY].replace(" ", "+"))
    elif TOKEN in query:
        _check_token(request, topic, query[TOKEN], now, public_url)
    else:
        raise Unauthenticated(
            "Request must contain one of the following authorization signature:"
            f" {', '.join(plane.carriers or plane.schemes)}."
        )


def bearer_token(request: HttpRequest) -> str | None:
    """Return the Entra ID access token if it is the deciding credential, else ``None``."""
    scheme, token = _credentials(request.headers.get("authorization", ""))
    if scheme != "bearer" or any(name in request.headers for name in data_plane(request).carriers):
        return None
    return token


def _credentials(authorization: str) -> tuple[str, str]:
    scheme, _, credentials = authorization.strip().partition(" ")
    return scheme.lower(), credentials.strip()


def _check_bearer(request: HttpRequest, topic: Topic, bearer: Claims | TokenFault | None) -> None:
    if bearer is None or bearer is TokenFault.UNREADABLE:
        raise Unauthenticated(TokenFault.UNREADABLE)
    if isinstance(bearer, TokenFault):
        raise _refusal(request, bearer, "token")
    if not bearer.grant(Role.DATA_SENDER):
        raise Forbidden(
            "The principal associated with access token presented with the incoming request"
            f" does not have permission to send data to {topic.arm_id}."
        )


def _check_local_auth(topic: Topic) -> None:
    if topic.disable_local_auth:
        raise Forbidden(
            f"Publishing to Topic {topic.name} with an access key or a shared access signature is"
            " rejected because local authentication is disabled."
        )


def _check_key(request: HttpRequest, topic: Topic, key: str, carrier: str = KEY) -> None:
    _check_local_auth(topic)
    if not key.strip():
        raise InvalidSignature(f"Request must have a value for {carrier}.")
    given = key.encode("utf-8", "surrogatepass")
    matches = [hmac.compare_digest(given, valid.encode()) for valid in topic.keys]
    if not any(matches):
        plane = data_plane(request)
        if TOKEN in plane.carriers and Signature.parse(key.strip()):
            raise _refusal(request, f"It is a signature, not a key: send it as {TOKEN}.")
        owner = plane.key_owner
        raise _refusal(request, f"The key is not one of the {owner}'s, or there is no such topic.")


def _check_authorization(
    request: HttpRequest, topic: Topic, authorization: str, now: datetime, public_url: str | None
) -> None:
    scheme, credentials = _credentials(authorization)
    schemes = data_plane(request).schemes
    if scheme not in map(str.lower, schemes):
        raise Unauthenticated(
            f"Request has an unsupported Authorization scheme (must be {' or '.join(schemes)})."
        )
    if scheme == "sharedaccesskey":
        _check_key(request, topic, credentials, "SharedAccessKey")
    else:
        _check_token(request, topic, credentials, now, public_url)


def _select(values: Mapping[str, str], names: Sequence[str]) -> dict[str, str]:
    return {name: values[name] for name in names if name in values}


def _check_token(
    request: HttpRequest, topic: Topic, token: str, now: datetime, public_url: str | None
) -> None:
    _check_local_auth(topic)
    token = token.strip()
    if not token:
        raise InvalidSignature(f"Request must have a value for {TOKEN}.")
    signature = Signature.parse(token)
    if signature is None:
        raise InvalidSignature(
            f"Invalid key in {TOKEN}. Valid format"
            " :r=UrlEncodedResource&e=UrlEncodedUtcExpiration&s=UrlEncodedSignature."
            f" Input sas string: {clip(token)}"
        )
    if signature.expires is None:  # whoever has signed it: the answer tells nothing about keys
        raise _refusal(request, _UNREADABLE_EXPIRY)
    signed = [signature.is_by(key) for key in topic.keys]  # every key, for constant time
    if not any(signed):
        raise _refusal(
            request, "The signature is not by one of the topic's keys, or there is no such topic."
        )
    if signature.expires <= now:
        raise _refusal(request, "The signature has expired.")
    accepted = _accepted_urls(request, public_url)
    if not any(map(signature.covers, accepted)):
        wanted = clip(accepted[-1].partition("?")[0])
        reason = f"The signature is for another resource: sign {wanted} or a path above it."
        raise _refusal(request, reason)


def _accepted_urls(request: HttpRequest, public_url: str | None) -> Sequence[str]:
    """Return the URLs to which a publisher may have sent the request."""
    if public_url is None:
        return (request.url,)
    return request.url, f"{public_url}{urlsplit(request.url).path}"


def _refusal(request: HttpRequest, reason: str, what: str = "key") -> Unauthenticated:
    return Unauthenticated(
        f"The request authorization {what} is not authorized for {_host(request).upper()}."
        f" This is due to the reason: {reason}"
    )


def _host(request: HttpRequest) -> str:
    try:
        return urlsplit(request.url).hostname or ""
    except ValueError:
        return ""
