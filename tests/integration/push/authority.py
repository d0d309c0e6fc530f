"""A certificate authority for tests, made anew for every run."""

from __future__ import annotations

import ssl
from datetime import timedelta
from pathlib import Path
from typing import Any

import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from shared.clock import SystemClock


class Authority:
    """Signs certificates for servers; *bundle* is the file to trust."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._authority = trustme.CA(organization_name="Test authority")
        self.bundle = folder / "authority.pem"
        self._authority.cert_pem.write_to_path(self.bundle)

    def server(self, host: str, **options: Any) -> ssl.SSLContext:
        """Return the context of a server with a certificate as from `issue`."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.issue(host, **options))
        return context

    def issue(
        self,
        host: str,
        *,
        ends_in: timedelta = timedelta(days=2),
        by_another: bool = False,
        is_named: bool = True,
        password: bytes = b"",
        key_type: trustme.KeyType = trustme.KeyType.ECDSA,
    ) -> Path:
        """
        Return a file with a key and its certificate, which is for *host*.

        Unless *is_named*, only its common name says so. With *password* the key is encrypted.
        """
        made = (trustme.CA() if by_another else self._authority).issue_cert(
            *([host] if is_named else []),
            common_name=host,
            not_after=SystemClock().now() + ends_in,
            key_type=key_type,
        )
        pem = made.private_key_pem.bytes()
        if password:
            key: Any = load_pem_private_key(pem, None)
            encrypted = BestAvailableEncryption(password)
            pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encrypted)
        both = self._folder / f"{len(list(self._folder.iterdir()))}.pem"
        both.write_bytes(pem + made.cert_chain_pems[0].bytes())
        return both
