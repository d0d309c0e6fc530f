"""A certificate authority for tests, made anew for every run."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import NameOID

from shared.clock import SystemClock

SIGNS_CERTIFICATES = x509.KeyUsage(
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)


class Authority:
    """Signs certificates for servers; *bundle* is the file to trust."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("Test authority")
        # Rounded to a day, as certificates have no fractions of seconds.
        self._today = SystemClock().now().replace(hour=0, minute=0, second=0, microsecond=0)
        certificate = (
            self._builder(self._name, timedelta(days=30))
            .public_key(self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(SIGNS_CERTIFICATES, critical=True)
            .add_extension(
                x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False
            )
            .sign(self._key, SHA256())
        )
        self.bundle = folder / "authority.pem"
        self.bundle.write_bytes(certificate.public_bytes(Encoding.PEM))

    def client(self) -> ssl.SSLContext:
        """Return a context that trusts this authority and no other."""
        return ssl.create_default_context(cafile=str(self.bundle))

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
        self_signed: bool = False,
        names_issuers_key: bool = True,
        is_named: bool = True,
        password: bytes = b"",
        key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | None = None,
    ) -> Path:
        """
        Return a file with a key and its certificate, which is for *host*.

        Unless *is_named*, only its common name says so. With *password* the key is encrypted.
        """
        key = key or ec.generate_private_key(ec.SECP256R1())
        try:
            name: x509.GeneralName = x509.IPAddress(ip_address(host))
        except ValueError:
            name = x509.DNSName(host)
        builder = self._builder(_name(host), ends_in).public_key(key.public_key())
        if is_named:
            builder = builder.add_extension(x509.SubjectAlternativeName([name]), critical=False)
        if names_issuers_key:
            issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
            builder = builder.add_extension(issuer, critical=False)
        certificate = builder.sign(key if self_signed else self._key, SHA256())
        both = self._folder / f"{certificate.serial_number}.pem"
        both.write_bytes(
            key.private_bytes(
                Encoding.PEM,
                PrivateFormat.PKCS8,
                BestAvailableEncryption(password) if password else NoEncryption(),
            )
            + certificate.public_bytes(Encoding.PEM)
        )
        return both

    def _builder(self, subject: x509.Name, ends_in: timedelta) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .serial_number(x509.random_serial_number())
            .not_valid_before(datetime(2024, 1, 1, tzinfo=UTC))
            .not_valid_after(self._today + ends_in)
        )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])
