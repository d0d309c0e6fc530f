"""Makes connections to endpoints TLS connections, resumes sessions, and reads certificates."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, NamedTuple

from shared.adapters.http.connection import HttpConnection
from shared.adapters.http.no_answer import NoAnswer
from shared.adapters.http.request_writer import Server
from shared.adapters.http.resolver import as_literal
from shared.clock import Deadline
from shared.http import Certificate

if TYPE_CHECKING:
    from cryptography import x509


_MAX_SESSIONS = 1024
_RESUMED_FOR = 3600.0  # seconds, then the certificate is verified again


class TlsMaterial(NamedTuple):
    """
    Authorities to trust besides the system's, and a certificate to present with its key.

    Each is PEM, or the path of a PEM file.
    """

    ca_bundle: str | None = None
    certificate: str | None = None
    key: str | None = None  # without it, it stands beside the certificate
    password: str | None = None

    def load(self, context: ssl.SSLContext) -> None:
        """
        Load it into *context*.

        Raises:
            OSError: a file can't be read, or has not what is needed.
        """
        if self.ca_bundle:
            with _file(self.ca_bundle) as path:
                context.load_verify_locations(cafile=path)
        if self.certificate:
            password = self.password or ""  # Without one, OpenSSL would ask at the terminal.
            with _file(self.certificate) as path, _file(self.key or self.certificate) as key:
                context.load_cert_chain(path, key, lambda: password)


@contextmanager
def _file(pem: str) -> Iterator[str]:
    """Yield the path of a file; OpenSSL reads a certificate with a key from nothing else."""
    if not pem.startswith("-----BEGIN"):
        yield pem
        return
    with NamedTemporaryFile("w") as written:
        written.write(pem)
        written.flush()
        yield written.name


def client_tls(material: TlsMaterial | None = None) -> ssl.SSLContext:
    """
    Return a context that trusts what the system trusts; ``SSL_CERT_FILE`` changes that.

    Raises:
        OSError: *material* can't be used.
    """
    context = ssl.create_default_context()
    # Python 3.13 and newer would refuse what many private authorities issue and older ones accept.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    # A name is in the certificate's subjectAltName (RFC 9110, 4.3.4), not in its common name.
    context.hostname_checks_common_name = False
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    if material:
        material.load(context)
    return context


class Tls:
    """
    Starts TLS, and remembers the latest session of each endpoint.

    A resumed session saves the exchange and verification of certificates. That was done for the
    session's first connection, to the same server, at most an hour ago.
    """

    def __init__(self, context: ssl.SSLContext, clock: Callable[[], float]) -> None:
        self._context = context
        self._clock = clock  # in seconds
        self._sessions: dict[Server, tuple[ssl.SSLSession, float]] = {}

    async def start(
        self, connection: HttpConnection, deadline: Deadline, *, resumes: bool, verifies: bool
    ) -> None:
        """
        Make it a TLS connection to its server, by the latest session if it *resumes* one.

        If it does not verify the certificate (*verifies*), anybody may be at the other end.

        Raises:
            NoAnswer: the handshake failed, or was not complete in time.
        """
        server = connection.server
        session, verified = self._sessions.get(server, (None, 0.0))
        if not (resumes and verifies) or verified + _RESUMED_FOR < self._clock():
            session = None
        context = self._context if verifies else _unverifying()
        # As certificates name it: an address in its usual form, a name without dot.
        name = str(as_literal(server.host) or server.host.removesuffix("."))
        try:
            await connection.start_tls(context, name, deadline, session)
        except NoAnswer:
            self._sessions.pop(server, None)
            raise

    def remember(self, connection: HttpConnection) -> None:
        """Remember the session of *connection*, after an answer: TLS 1.3 sends it so late."""
        session = connection.tls and connection.tls.session
        if not session or not session.has_ticket:
            return
        _, verified = self._sessions.pop(connection.server, (None, 0.0))
        if not (connection.tls and connection.tls.session_reused):
            verified = self._clock()
        self._sessions[connection.server] = session, verified
        if len(self._sessions) > _MAX_SESSIONS:
            del self._sessions[next(iter(self._sessions))]


def _unverifying() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


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
