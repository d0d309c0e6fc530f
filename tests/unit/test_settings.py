"""What is read of settings, what is refused, and what the log says of them."""

from __future__ import annotations

import json
import logging
from ipaddress import ip_network
from unittest.mock import Mock

import pytest

from shared.errors import InvalidSettings
from shared.http import HttpRequest
from shared.settings import (
    NAMES,
    STORAGE,
    AttemptLogging,
    LogFormat,
    PublishLogging,
    Settings,
    from_environ,
    unknown,
    unresolved,
)
from shared.settings.network_settings import EgressProxy
from shared.wiring.function_app import FunctionApp
from shared.wiring.settings import log_doubtful_settings

_TENANT = "11111111-2222-3333-4444-555555555555"


def read(**environ: str) -> Settings:
    named = {f"PUSHGRID_{name}": value for name, value in environ.items()}
    return from_environ({"AzureWebJobsStorage": "x"} | named, frozenset({"latest"}))


def test_what_is_not_set_has_the_default_of_its_member() -> None:
    """Tests build `Settings` by hand: they must be those of an app that sets nothing."""
    assert read() == Settings(storage={"": "x"})


def test_a_setting_that_is_written_empty_has_its_default() -> None:
    """Templates write every setting."""
    empty = {name: "" for name in NAMES.values() if name != STORAGE}

    assert from_environ({STORAGE: "x"} | empty, frozenset({"latest"})) == read()


def test_without_a_tenant_there_is_no_entra() -> None:
    assert not read().has_entra
    assert not read(ENTRA_AUDIENCE="https://a.example").has_entra


def test_a_tenant_says_who_issues_and_where_the_keys_are() -> None:
    settings = read(ENTRA_TENANT=_TENANT.upper())

    assert settings.has_entra
    assert settings.entra_issuer == (
        f"https://login.microsoftonline.com/{_TENANT}/v2.0",
        f"https://sts.windows.net/{_TENANT}/",
    )
    assert settings.entra_jwks_url == (
        f"https://login.microsoftonline.com/{_TENANT}/discovery/v2.0/keys"
    )
    assert settings.entra_audience == ("https://eventgrid.azure.net",)
    assert settings.entra_management_audience == ("https://management.azure.com",)


def test_another_issuer_can_be_named() -> None:
    settings = read(
        ENTRA_ISSUER="https://a.example/, https://b.example",
        ENTRA_JWKS_URL="https://a.example/keys",
        ENTRA_AUDIENCE="api://one,api://two",
    )

    assert settings.has_entra
    assert settings.entra_issuer == ("https://a.example/", "https://b.example")
    assert settings.entra_jwks_url == "https://a.example/keys"
    assert settings.entra_audience == ("api://one", "api://two")


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({"ENTRA_ISSUER": "https://a"}, "PUSHGRID_ENTRA_JWKS_URL is not set, but PUSHGRID_ENTRA_I"),
        ({"ENTRA_JWKS_URL": "https://a"}, "PUSHGRID_ENTRA_ISSUER is not set, but PUSHGRID_ENTRA_J"),
        ({"ENTRA_JWKS_URL": "ftp://a", "ENTRA_ISSUER": "x"}, "not an http or https URL"),
        ({"AZ_LOGIN": "true", "ENTRA_TENANT": _TENANT}, "set PUSHGRID_AZ_LOGIN=false, or leave"),
        (
            {"AZ_LOGIN": "1", "ENTRA_ISSUER": "https://a", "ENTRA_JWKS_URL": "https://a/keys"},
            "PUSHGRID_AZ_LOGIN and Entra ID exclude",
        ),
        ({"ENTRA_TENANT": "common"}, "not the id of a tenant"),
        ({"ENTRA_TENANT": f"{_TENANT}/x"}, "not the id of a tenant"),
        ({"CLIENT_IP_HEADER": "X-Forwarded-For:"}, "not a header name"),
        ({"ALLOW_HTTP": "yes"}, "not a boolean"),
        ({"ATTEMPT_LOG": "some"}, "not one of all, failures, off"),
        ({"CACHE_SECONDS": "-1"}, "not a number between 0 and 3600"),
        ({"CACHE_SECONDS": "3601"}, "not a number between 0 and 3600"),
        ({"ENDPOINT_LIMIT": "0"}, "not a number between 1 and 4096"),
        ({"ENDPOINT_LIMIT": "1.5"}, "not a whole number"),
        ({"PROFILE": "2016"}, "not one of latest"),
        ({"PUBLIC_URL": "events.example"}, "not an http or https URL"),
        ({"TIME_SCALE": "0.9"}, "not a number between 1 and 100000"),
        ({"TIME_SCALE": "100001"}, "not a number between 1 and 100000"),
        ({"TIME_SCALE": "nan"}, "not a number between 1 and 100000"),
        # It gets the application's secret.
        ({"WEBHOOK_AUTHORITY": "http://login.example"}, "not an https URL"),
        ({"WEBHOOK_CLIENT_ID": "an app"}, "not the id of an application"),
        (
            {"ALLOWED_NETWORKS": "10.0.0.0/8, 127.0.0.1/8"},
            "entry 2 has bits set outside the prefix: use 127.0.0.0/8",
        ),
        ({"ALLOWED_NETWORKS": "fe80::1%1/10"}, "entry 1 has a zone id: remove it"),
        ({"NAME_SERVERS": "10.0.0.53, dns.test"}, "entry 2 is not an address: use 10.0.0.53"),
        ({"NAME_SERVERS": "10.0.0.53:0"}, "entry 1 is not an address"),
        ({"NAME_SERVERS": "fd00::53"}, "entry 1 is not an address"),
        ({"NAME_SERVERS": "10.0.0.53/24"}, "entry 1 is not an address"),
        ({"EGRESS_PROXY": "proxy:8080"}, "PUSHGRID_EGRESS_PROXY: not the URL of a proxy"),
        ({"EGRESS_PROXY": "https://proxy"}, "use http://host:port"),
        ({"EGRESS_PROXY": "http://proxy:port"}, "use http://host:port"),
        ({"EGRESS_PROXY": "http://proxy/path"}, "use http://host:port"),
        ({"EGRESS_PROXY": "http://:8080"}, "use http://host:port"),
        ({"ALLOWED_NETWORKS": "10.0.0"}, "entry 1 is not a network: use 10.0.0.0/8"),
    ],
)
def test_what_can_not_be_meant_is_refused(environ: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidSettings) as raised:
        read(**environ)

    assert words in raised.value.message


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("ALLOW_HTTP", "TRUE", True),
        ("ALLOW_HTTP", "1", True),
        ("ALLOW_HTTP", "0", False),
        ("ATTEMPT_LOG", "All", AttemptLogging.ALL),
        ("PUBLISH_LOG", "requests", PublishLogging.REQUESTS),
        ("LOG_FORMAT", "text", LogFormat.TEXT),
        ("PUBLIC_URL", " https://events.example/ ", "https://events.example"),
        ("TIME_SCALE", "1", 1.0),
        ("TIME_SCALE", "100000", 100_000.0),
        ("WEBHOOK_AUTHORITY", "https://login.example/", "https://login.example"),
        ("CLIENT_IP_HEADER", "X-Forwarded-For", "x-forwarded-for"),
        ("CLIENT_IP_HEADER", " ", None),
        ("NAME_SERVERS", "10.0.0.53, [fd00::53]:5353", ("10.0.0.53", "[fd00::53]:5353")),
        ("EGRESS_PROXY", "http://proxy.example", EgressProxy("proxy.example", 8080)),
        ("EGRESS_PROXY", "http://[fd00::1]:3128/", EgressProxy("fd00::1", 3128)),
        (
            "EGRESS_PROXY",
            "http://user:p%40ss@proxy.example:80",
            EgressProxy("proxy.example", 80, "Basic dXNlcjpwQHNz"),
        ),
        (
            "ALLOWED_NETWORKS",
            "10.0.0.0/8, 192.0.2.7,fd00::/8",
            tuple(map(ip_network, ("10.0.0.0/8", "192.0.2.7/32", "fd00::/8"))),
        ),
    ],
)
def test_what_is_read_of_a_setting(name: str, text: str, value: object) -> None:
    assert getattr(read(**{name: text}), name.lower()) == value


def test_a_password_of_the_proxy_is_not_shown() -> None:
    settings = read(EGRESS_PROXY="http://user:secret@proxy.example")
    with pytest.raises(InvalidSettings) as raised:
        read(EGRESS_PROXY="http://user:secret@proxy.example/path")

    assert "secret" not in f"{settings}{raised.value.message}"
    assert "dXNlcjpzZWNyZXQ=" not in f"{settings}"


_MISTAKEN = (
    "s3cret",
    "s3cret/24, 10.0.0.s3cret",
    "10.0.0.1/8, fe80::1%s3cret/10",
    "s3cret=s3cret",
    "archive1=s3cret, archive1=https://u:s3cret@archive1.example",
    "archive1=https://[s3cret",
    "AccountName=s3cret;AccountKey=s3cret;BlobEndpoint=https://u:s3cret@[b",
    "BlobEndpoint=https://[s3cret;SharedAccessSignature=sig",
    "https://user:s3cret@events.example",
    "HTTPS://user:s3cret@events.example",
    "https://user:s3cret@\u2100.example",  # whose text is in the error of `urlsplit`
    "https://[s3cret",
    "ftp://s3cret",
)


@pytest.mark.parametrize(
    "name", [*NAMES.values(), *(f"{STORAGE}__{each}" for each in ("blobServiceUri", "credential"))]
)
def test_no_error_quotes_the_value_of_a_setting(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if not name.startswith(STORAGE):
        monkeypatch.setenv(STORAGE, "UseDevelopmentStorage=true")
    for service in ("blob", "queue", "table"):
        monkeypatch.setenv(f"{STORAGE}__{service}ServiceUri", f"https://acc.{service}.example")
    told = []
    for text in _MISTAKEN:
        monkeypatch.setenv(name, text)
        try:
            FunctionApp().settings  # noqa: B018 - it raises
        except InvalidSettings as error:
            told.append(error.message)

    assert "s3cret" not in f"{told}"


@pytest.mark.parametrize("name", ["PUBLIC_URL", "ENTRA_JWKS_URL", "WEBHOOK_AUTHORITY"])
def test_a_url_has_no_password(name: str) -> None:
    """It would be shown in endpoints and in the log, and no request is sent with it."""
    with pytest.raises(InvalidSettings, match=f"PUSHGRID_{name}: has a user name or password"):
        read(**{name: "https://user:s3cret@events.example"})


_REFERENCE = (
    "@Microsoft.KeyVault(SecretUri=https://kv-x.vault.azure.net/secrets/pushgrid-admin-key)"
)


@pytest.mark.parametrize("reference", [_REFERENCE, f"  {_REFERENCE}", "@Microsoft.KeyVault("])
def test_a_reference_that_is_not_resolved_is_no_secret(reference: str) -> None:
    settings = read(
        ADMIN_KEY=reference, WEBHOOK_CLIENT_SECRET=reference, WEBHOOK_CERTIFICATE=reference
    )

    assert settings.admin_key is None
    assert settings.webhook_client_secret is None
    assert settings.webhook_certificate is None


@pytest.mark.parametrize("other", ["ADMIN_KEY", "ADMIN_KEY_2"])
def test_a_reader_s_key_that_is_an_admin_key_is_refused(other: str) -> None:
    with pytest.raises(InvalidSettings, match="PUSHGRID_READER_KEY: is an admin key") as raised:
        read(**{other: "s3cret", "READER_KEY": " s3cret"})

    assert "s3cret" not in str(raised.value)
    assert read(ADMIN_KEY=_REFERENCE, READER_KEY=_REFERENCE).reader_key is None
    assert read(ADMIN_KEY="a", ADMIN_KEY_2="a", READER_KEY="b").reader_key == "b"


def test_settings_that_were_not_resolved_are_named() -> None:
    environ = {
        "PUSHGRID_ADMIN_KEY": _REFERENCE,
        "PUSHGRID_PROFILE": "latest",
        "PUSHGRID_WEBHOOK_CLIENT_SECRET": "a secret",
        "PUSHGRID_WEBHOOK_CERTIFICATE": f" {_REFERENCE}",
        "SOMEBODY_ELSES": _REFERENCE,
    }

    assert unresolved(environ) == ("PUSHGRID_ADMIN_KEY", "PUSHGRID_WEBHOOK_CERTIFICATE")


def test_a_key_that_was_not_resolved_is_an_error_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log_doubtful_settings({"PUSHGRID_ADMIN_KEY": _REFERENCE})

    (line,) = [json.loads(record.getMessage()) for record in caplog.records]
    assert (line["event"], line["setting"]) == ("setting.unresolved", "PUSHGRID_ADMIN_KEY")
    for part in (
        "Key Vault returned no value for it",
        "the management API and the metrics reject this key",
        "the app's identity may read it, then restart the app",
    ):
        assert part in line["detail"]
    assert caplog.records[0].levelno == logging.ERROR


@pytest.mark.parametrize(
    ("name", "nearest"), [("PUSHGRID_ADMINKEY", "PUSHGRID_ADMIN_KEY"), ("PUSHGRID_XYZ", None)]
)
def test_a_setting_that_nobody_reads_is_a_warning_in_the_log(
    name: str,
    nearest: str | None,
    caplog: pytest.LogCaptureFixture,
) -> None:
    log_doubtful_settings({name: "x", "PUSHGRID_CACHE_SECONDS": "5"})

    (record,) = caplog.records
    told = {"event": "setting.unknown", "setting": name}
    assert json.loads(record.getMessage()) == told | ({"nearest": nearest} if nearest else {})
    assert record.levelno == logging.WARNING


def test_all_names_of_ours_are_known() -> None:
    others = ["SOMEBODY_ELSES", "PATH", "PUSHGRID_URL", "PUSHGRID_SCOPE", "PUSHGRID_INSECURE"]
    others += ["PUSHGRID_ENTRA_SCOPE", "PUSHGRID_ADMIN_KEY_FILE", "PUSHGRID_READER_KEY_FILE"]
    assert unknown(dict.fromkeys([*NAMES.values(), *others], "")) == {}


def test_use_cases_that_run_by_themselves_or_need_the_key_tell_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("AzureWebJobsStorage", "UseDevelopmentStorage=true")
    monkeypatch.setenv("PUSHGRID_ADMIN_KEY", _REFERENCE)

    request = HttpRequest(method="GET", url="https://app.example/", headers={})
    for call, use_case in (
        (lambda app: app.manage(request), "manage"),
        (FunctionApp.write_dead_letters, "deadletter_timer"),
    ):
        app = FunctionApp()
        monkeypatch.setattr(app, "prepare", Mock())  # would ask storage
        monkeypatch.setattr(app.app, use_case, Mock())  # the same
        caplog.clear()
        call(app)

        assert "setting.unresolved" in caplog.text


@pytest.mark.parametrize(
    ("members", "setting"),
    [
        ({"accountName": "acc", "credential": "managed-identity"}, "credential"),
        # The host gets on with two of the three; we don't.
        ({"blobServiceUri": "https://b", "queueServiceUri": "https://q"}, "tableServiceUri"),
    ],
)
def test_a_storage_that_cannot_be_used_is_a_fault_of_the_settings(
    monkeypatch: pytest.MonkeyPatch, members: dict[str, str], setting: str
) -> None:
    """So it is known before a message is received, and publishers hear of it."""
    for name, value in members.items():
        monkeypatch.setenv(f"AzureWebJobsStorage__{name}", value)

    fault = FunctionApp().settings_fault

    assert fault is not None
    assert [each.target for each in fault.faults] == [f"AzureWebJobsStorage__{setting}"]
