"""Reads certificates of endpoints, for operators; TLS itself verifies them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.adapters.http.resolver import as_literal
from shared.http import Certificate

if TYPE_CHECKING:
    from cryptography import x509


def parse_certificate(der: bytes, host: str) -> Certificate | None:
    """
    Read a certificate, and whether it is for *host*; ``None`` if it can't be read.

    Never raises: the endpoint chooses what is in it.
    """
    from cryptography import x509

    try:
        parsed = x509.load_der_x509_certificate(der)
        names = _names(parsed)
        return Certificate(
            subject=parsed.subject.rfc4514_string(),
            issuer=parsed.issuer.rfc4514_string(),
            valid_until=parsed.not_valid_after_utc,
            names=names,
            matches=any(_is_for(name, host) for name in names),
        )
    except Exception:  # noqa: BLE001 - the library's errors share no base class
        return None


def _names(parsed: x509.Certificate) -> tuple[str, ...]:
    from cryptography import x509

    try:
        found = parsed.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return ()
    names = found.get_values_for_type(x509.DNSName)
    return (*names, *map(str, found.get_values_for_type(x509.IPAddress)))


def _is_for(name: str, host: str) -> bool:
    """Tell whether *name* is *host*; a ``*`` stands for its first label (RFC 9525, 6.3)."""
    address, plain = as_literal(host), host.removesuffix(".").lower()
    if address:
        return name == str(address)
    first, _, rest = name.lower().partition(".")
    return name.lower() == plain or (first == "*" and rest == plain.partition(".")[2])
