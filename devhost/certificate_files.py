"""
Makes the certificate with which the host serves https, and keeps it in a folder of the user.

The authority that issues it signs nothing else: its private key is never written.
"""

from __future__ import annotations

import os
import ssl
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import certifi
import trustme
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from filelock import FileLock
from platformdirs.unix import Unix

from devhost.errors import HostError

_NAMES = ("localhost", "127.0.0.1", "::1")
_VALID_FOR = timedelta(days=820)  # some clients accept 825 days at most
_VALID_BEFORE = timedelta(days=1)  # clocks of containers may be behind
_RENEWED_BEFORE = timedelta(days=30)
_REPLACING = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")  # requests looks for both, in this order


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateFiles:
    """The files of a certificate, each in PEM."""

    server: Path  # the private key, the certificate and its authority
    authority: Path  # alone
    bundle: Path  # the authority after all that are trusted without it

    @property
    def variables(self) -> dict[str, str]:
        """Return what clients need in their environment; all but Node's replace authorities."""
        every = dict.fromkeys((*_REPLACING, "SSL_CERT_FILE"), str(self.bundle))
        return every | {"NODE_EXTRA_CA_CERTS": str(self.authority)}


def user_folder() -> Path:
    """Return where a user's certificate is kept."""
    return Unix("pushgrid").user_data_path / "tls"


def local_certificate(folder: Path, now: datetime | None = None) -> CertificateFiles:
    """
    Return the certificate in *folder*; it is made if there is none, or it soon expires.

    Raises:
        HostError: the folder cannot be used.
    """
    found = CertificateFiles(
        server=folder / "server.pem",
        authority=folder / "authority.pem",
        bundle=folder / "bundle.pem",
    )
    now = now or datetime.now(UTC)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with FileLock(folder / "making.lock"):  # hosts that start together serve the same one
            if not found.server.exists() or _expires(found.server) < now + _RENEWED_BEFORE:
                _replace(found.server, _issued(now))
            authority = _certificates(found.server)[-1].public_bytes(Encoding.PEM).decode()
            _replace(found.authority, authority)
            _replace(found.bundle, _with_trusted(authority))
    except ValueError as fault:
        message = f"{found.server} is no certificate: delete it, and a new one is made"
        raise HostError(message) from fault
    except OSError as fault:
        raise HostError(f"no certificate for https in {folder}: {fault}") from fault
    return found


def _issued(now: datetime) -> str:
    authority = trustme.CA(organization_name="Pushgrid", organization_unit_name="this machine only")
    issued = authority.issue_cert(
        *_NAMES, not_before=now - _VALID_BEFORE, not_after=now + _VALID_FOR
    )
    return (issued.private_key_and_cert_chain_pem.bytes() + authority.cert_pem.bytes()).decode()


def _certificates(server: Path) -> list[x509.Certificate]:
    return x509.load_pem_x509_certificates(server.read_bytes())


def _expires(server: Path) -> datetime:
    return _certificates(server)[0].not_valid_after_utc


def _with_trusted(authority: str) -> str:
    """Return *authority* after those that clients on this machine trust now."""
    context = ssl.create_default_context()
    for each in (certifi.where(), *(os.environ.get(name, "") for name in _REPLACING)):
        if Path(each).is_file():
            context.load_verify_locations(each)
    context.load_verify_locations(cadata=authority)
    return "".join(map(ssl.DER_cert_to_PEM_cert, context.get_ca_certs(binary_form=True)))


def _replace(path: Path, text: str) -> None:
    """Give *path* this text at once, for its owner only; nothing if it has it."""
    if not path.exists() or path.read_text() != text:
        descriptor, name = tempfile.mkstemp(dir=path.parent)
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
        Path(name).replace(path)
