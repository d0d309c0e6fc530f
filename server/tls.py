"""Loads the certificate with which the server answers, and loads it again while it serves."""

from __future__ import annotations

import ssl
from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509

from server.failure import CannotStart

_REMEDIES = {
    "KEY_VALUES_MISMATCH": "the key is not that of the certificate: name the two that belong "
    "together",
    "NO_START_LINE": "one of them is not PEM, or the key is missing: name a certificate with its "
    "chain and a key, both as PEM",
    "EE_KEY_TOO_SMALL": "the key is too small: use RSA of 2,048 bits or more, or ECDSA",
}
_SOON = timedelta(days=14)
_NO_KEY = "they can't be loaded: name a certificate with its chain and its key, both as PEM"


class ServerTls:
    """The TLS of the server: *context* serves new connections with what was loaded last."""

    def __init__(self, certificate: Path, key: Path | None) -> None:
        """Load both; without *key* it stands beside the certificate. Raises CannotStart."""
        self._files = certificate, key or certificate
        self.context = _context()
        _load(self.context, *self._files)

    def reload(self) -> None:
        """Load both again. Raises CannotStart; then what was loaded goes on."""
        _load(_context(), *self._files)  # A pair that is half replaced never serves.
        _load(self.context, *self._files)

    def doubt(self, now: datetime) -> str | None:
        """Return why clients refuse the certificate *now*, or soon; ``None``: they don't."""
        path = self._files[0]
        try:
            found = x509.load_pem_x509_certificates(path.read_bytes())[0]
        except (OSError, ValueError) as error:
            return f"--tls-cert {path}: its time can't be read ({error}): renew it."
        begin, end = found.not_valid_before_utc, found.not_valid_after_utc
        if now < begin:
            why = f"is not valid before {_shown(begin)}: correct the clock, or name another one"
        elif now > end:
            why = f"has expired on {_shown(end)}: renew it"
        elif now > end - _SOON:
            why = f"expires on {_shown(end)}: renew it"
        else:
            return None
        return f"--tls-cert {path} {why}. SIGHUP has a server read it again."


def _shown(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC"


def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    return context


def _load(context: ssl.SSLContext, certificate: Path, key: Path) -> None:
    files = f"--tls-cert {certificate}" + ("" if key == certificate else f", --tls-key {key}")
    try:
        context.load_cert_chain(certificate, key, password=_no_password)
    except ssl.SSLError as error:
        raise CannotStart(f"{files}: {_REMEDIES.get(error.reason, _NO_KEY)}.") from None
    except _Encrypted:
        why = "the key has a password: name one without, readable by this user only"
        raise CannotStart(f"{files}: {why}.") from None
    except OSError as error:
        missing = next((each for each in (certificate, key) if not _is_readable(each)), certificate)
        raise CannotStart(
            f"{files}: {missing} can't be read ({error.strerror}): name a file that this user may "
            "read."
        ) from None


class _Encrypted(Exception):
    pass


def _no_password() -> str:
    raise _Encrypted


def _is_readable(path: Path) -> bool:
    try:
        with path.open("rb"):
            return True
    except OSError:
        return False
