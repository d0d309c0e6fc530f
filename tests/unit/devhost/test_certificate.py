"""The certificate of https on this machine: made once, readable by its owner, renewed in time."""

from __future__ import annotations

import ssl
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import certifi
import pytest
from cryptography import x509

from devhost import certificate_files
from devhost.certificate_files import CertificateFiles, local_certificate
from devhost.errors import HostError

pytestmark = pytest.mark.slow
NOW = datetime(2026, 11, 22, tzinfo=UTC)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data" / "tls"


def texts(made: CertificateFiles) -> list[str]:
    return [path.read_text() for path in (made.server, made.authority, made.bundle)]


def authorities(path: Path) -> set[bytes]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(path)
    return set(context.get_ca_certs(binary_form=True))


@pytest.mark.parametrize(("days", "is_kept"), [(700, True), (800, False)])
def test_it_is_renewed_before_it_expires(folder: Path, days: int, *, is_kept: bool) -> None:
    first = texts(local_certificate(folder, NOW))

    second = texts(local_certificate(folder, NOW + timedelta(days=days)))

    assert [one == other for one, other in zip(first, second, strict=True)] == [is_kept] * 3


def test_it_is_not_valid_for_longer_than_clients_accept(folder: Path) -> None:
    made = local_certificate(folder, NOW)

    server, _ = x509.load_pem_x509_certificates(made.server.read_bytes())
    assert server.not_valid_before_utc < NOW
    assert server.not_valid_after_utc - server.not_valid_before_utc < timedelta(days=825)


def test_hosts_that_start_together_serve_the_same(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    issue, issued = certificate_files._issued, []

    def slowly(now: datetime) -> str:
        issued.append(now)
        time.sleep(0.1)  # so that all are there before the first is stored
        return issue(now)

    monkeypatch.setattr(certificate_files, "_issued", slowly)
    with ThreadPoolExecutor(4) as hosts:
        made = list(hosts.map(lambda _: texts(local_certificate(folder, NOW)), range(4)))

    assert len(issued) == 1
    assert all(each == made[0] for each in made)


def test_its_files_are_its_owners_alone(folder: Path) -> None:
    made = local_certificate(folder, NOW)

    paths = (folder, made.server, made.authority, made.bundle)
    assert [path.stat().st_mode & 0o777 for path in paths] == [0o700, 0o600, 0o600, 0o600]


def test_it_is_for_this_machine_and_its_authoritys_key_is_nowhere(folder: Path) -> None:
    made = local_certificate(folder, NOW)

    server, _ = x509.load_pem_x509_certificates(made.server.read_bytes())
    names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost"]
    addresses = names.get_values_for_type(x509.IPAddress)
    assert [str(each) for each in addresses] == ["127.0.0.1", "::1"]
    assert "".join(texts(made)).count("PRIVATE KEY-----") == 2  # of the server, begin and end


@pytest.mark.parametrize("variable", ["REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"])
def test_the_bundle_keeps_the_authorities_that_are_trusted_without_it(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    company = local_certificate(tmp_path / "company", NOW).authority
    monkeypatch.setenv(variable, str(company))

    made = local_certificate(folder, NOW)

    assert authorities(made.bundle) >= authorities(Path(certifi.where())) | authorities(company)
    assert authorities(made.bundle) > authorities(made.authority)


def test_a_file_that_is_no_certificate_is_a_fault_with_its_folder(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "server.pem").write_text("nonsense")

    with pytest.raises(HostError, match=f"{folder}/server.pem .*: delete it"):
        local_certificate(folder, NOW)
