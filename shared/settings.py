"""The app's settings, read once."""

from __future__ import annotations

import difflib
import ipaddress
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import TypeVar

from shared.errors import Fault, InvalidSettings
from shared.storage_setting import storage_setting

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
T = TypeVar("T")
E = TypeVar("E", bound=StrEnum)

LOGIN = "https://login.microsoftonline.com"
EVENT_GRID_AUDIENCE = ("https://eventgrid.azure.net",)
MANAGEMENT_AUDIENCE = ("https://management.azure.com",)


class AttemptLogging(StrEnum):
    """Which delivery attempts go to the tables of attempts."""

    FAILURES = "failures"
    ALL = "all"
    OFF = "off"


class LogFormat(StrEnum):
    """How attempts and refusals are logged: a whole record, or a line that fits a terminal."""

    JSON = "json"
    TEXT = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """
    Everything that can be set, each with the name of its environment variable in ``NAMES``.

    *admin_key* ``None`` closes the management API, but to Entra ID. *public_url* ``None`` means:
    from the request. *client_ip_header* is in lower case; ``None``: nobody knows where clients are.
    *storage* is a connection as `storage_setting` returns it.
    The schedules are the host's to read: without them it leaves out the timers alone.
    """

    storage: Mapping[str, str] = field(repr=False)
    wake_schedule: str | None = None
    deadletter_schedule: str | None = None
    admin_key: str | None = field(default=None, repr=False)
    profile: str = "latest"
    public_url: str | None = None
    allow_http: bool = False
    allowed_networks: tuple[Network, ...] = ()
    time_scale: float = 1.0
    cache_for: timedelta = timedelta(seconds=5)
    attempt_log: AttemptLogging = AttemptLogging.FAILURES
    log_format: LogFormat = LogFormat.JSON
    honor_retry_after: bool = False
    probation_counts_attempt: bool = False
    probation_ends_events: bool = False
    client_ip_header: str | None = None
    entra_tenant: str | None = None
    entra_issuer: tuple[str, ...] = ()
    entra_jwks_url: str | None = None
    entra_audience: tuple[str, ...] = EVENT_GRID_AUDIENCE
    entra_management_audience: tuple[str, ...] = MANAGEMENT_AUDIENCE
    webhook_client_id: str | None = None
    webhook_client_secret: str | None = field(default=None, repr=False)
    webhook_certificate: str | None = field(default=None, repr=False)
    webhook_authority: str = LOGIN

    @property
    def has_webhook_identity(self) -> bool:
        """Whether there are tokens for webhooks that Entra ID protects."""
        proof = self.webhook_certificate or self.webhook_client_secret
        return bool(self.webhook_client_id and proof)

    @property
    def has_entra(self) -> bool:
        """Whether tokens of Entra ID are read at all."""
        return self.entra_jwks_url is not None


STORAGE = "AzureWebJobsStorage"
NAMES = {
    "storage": STORAGE,
    "wake_schedule": "PUSHGRID_WAKE_SCHEDULE",
    "deadletter_schedule": "PUSHGRID_DEADLETTER_SCHEDULE",
    "admin_key": "PUSHGRID_ADMIN_KEY",
    "profile": "PUSHGRID_PROFILE",
    "public_url": "PUSHGRID_PUBLIC_URL",
    "allow_http": "PUSHGRID_ALLOW_HTTP",
    "allowed_networks": "PUSHGRID_ALLOWED_NETWORKS",
    "time_scale": "PUSHGRID_TIME_SCALE",
    "cache_for": "PUSHGRID_CACHE_SECONDS",
    "attempt_log": "PUSHGRID_ATTEMPT_LOG",
    "log_format": "PUSHGRID_LOG_FORMAT",
    "honor_retry_after": "PUSHGRID_HONOR_RETRY_AFTER",
    "probation_counts_attempt": "PUSHGRID_PROBATION_COUNTS_ATTEMPT",
    "probation_ends_events": "PUSHGRID_PROBATION_ENDS_EVENTS",
    "client_ip_header": "PUSHGRID_CLIENT_IP_HEADER",
    "entra_tenant": "PUSHGRID_ENTRA_TENANT",
    "entra_issuer": "PUSHGRID_ENTRA_ISSUER",
    "entra_jwks_url": "PUSHGRID_ENTRA_JWKS_URL",
    "entra_audience": "PUSHGRID_ENTRA_AUDIENCE",
    "entra_management_audience": "PUSHGRID_ENTRA_MANAGEMENT_AUDIENCE",
    "webhook_client_id": "PUSHGRID_WEBHOOK_CLIENT_ID",
    "webhook_client_secret": "PUSHGRID_WEBHOOK_CLIENT_SECRET",
    "webhook_certificate": "PUSHGRID_WEBHOOK_CERTIFICATE",
    "webhook_authority": "PUSHGRID_WEBHOOK_AUTHORITY",
}
_GUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_HEADER = re.compile(r"[a-z0-9-]+")
_OURS = "PUSHGRID_"
_UNRESOLVED = "@Microsoft.KeyVault("  # what is left in place of a reference that can't be resolved


def from_environ(environ: Mapping[str, str], profiles: frozenset[str]) -> Settings:
    """
    Read the settings; *profiles* are the delivery profiles there are.

    Raises:
        InvalidSettings: all faults at once.
    """
    faults: list[Fault] = []

    def read(member: str, parse: Callable[[str], T], default: T) -> T:
        name = NAMES[member]
        text = environ.get(name, "").strip()
        if not text:
            return default
        try:
            return parse(text)
        except ValueError as error:
            faults.append(Fault(code="InvalidSetting", message=f"{name}: {error}", target=name))
            return default

    tenant = read("entra_tenant", _tenant, None)
    issuers = read("entra_issuer", _texts, _issuers(tenant))
    keys = f"{LOGIN}/{tenant}/discovery/v2.0/keys" if tenant else None
    jwks_url = read("entra_jwks_url", _url, keys)
    if (jwks_url is None) != (not issuers):
        given, missing = ("entra_issuer", "entra_jwks_url")[:: 1 if issuers else -1]
        message = f"{NAMES[missing]} is not set, but {NAMES[given]} is"
        faults.append(Fault(code="MissingSetting", message=message, target=NAMES[missing]))
    settings = Settings(
        storage=_storage(environ, faults),
        wake_schedule=read("wake_schedule", str, None),
        deadletter_schedule=read("deadletter_schedule", str, None),
        admin_key=read("admin_key", _secret, None),
        profile=read("profile", _one_of(profiles), "latest"),
        public_url=read("public_url", _url, None),
        allow_http=read("allow_http", _boolean, False),
        allowed_networks=read("allowed_networks", _networks, ()),
        time_scale=read("time_scale", _scale, 1.0),
        cache_for=read("cache_for", _seconds, timedelta(seconds=5)),
        attempt_log=read("attempt_log", _choice(AttemptLogging), AttemptLogging.FAILURES),
        log_format=read("log_format", _choice(LogFormat), LogFormat.JSON),
        honor_retry_after=read("honor_retry_after", _boolean, False),
        probation_counts_attempt=read("probation_counts_attempt", _boolean, False),
        probation_ends_events=read("probation_ends_events", _boolean, False),
        client_ip_header=read("client_ip_header", _header, None),
        entra_tenant=tenant,
        entra_issuer=issuers,
        entra_jwks_url=jwks_url,
        entra_audience=read("entra_audience", _texts, EVENT_GRID_AUDIENCE),
        entra_management_audience=read("entra_management_audience", _texts, MANAGEMENT_AUDIENCE),
        webhook_client_id=read("webhook_client_id", _client_id, None),
        webhook_client_secret=read("webhook_client_secret", _secret, None),
        webhook_certificate=read("webhook_certificate", _secret, None),
        webhook_authority=read("webhook_authority", _https, LOGIN),
    )
    if faults:
        raise InvalidSettings("; ".join(fault.message for fault in faults), faults=tuple(faults))
    return settings


def unresolved(environ: Mapping[str, str]) -> tuple[str, ...]:
    """
    Return the names of our settings that hold a Key Vault reference instead of what it stands for.

    A secret among them counts as unset: the text of a reference is no secret.
    """
    return tuple(
        name for name in NAMES.values() if environ.get(name, "").strip().startswith(_UNRESOLVED)
    )


def unknown(environ: Mapping[str, str]) -> Mapping[str, str | None]:
    """Return the names that look like settings of ours and are none, with the nearest that is."""
    known = sorted(name.removeprefix(_OURS) for name in NAMES.values() if name.startswith(_OURS))
    given = (name.removeprefix(_OURS) for name in sorted(environ) if name.startswith(_OURS))
    nearest = {
        name: difflib.get_close_matches(name, known, 1) for name in given if name not in known
    }
    return {_OURS + name: _OURS + near[0] if near else None for name, near in nearest.items()}


def _storage(environ: Mapping[str, str], faults: list[Fault]) -> Mapping[str, str]:
    setting = storage_setting(STORAGE, environ)
    if not setting:
        faults.append(Fault(code="MissingSetting", message=f"{STORAGE} is not set", target=STORAGE))
    return setting


def _secret(text: str) -> str | None:
    return None if text.startswith(_UNRESOLVED) else text


def _boolean(text: str) -> bool:
    if text.lower() not in {"true", "false", "1", "0"}:
        raise ValueError(f"'{text}' is neither true nor false")
    return text.lower() in {"true", "1"}


def _networks(text: str) -> tuple[Network, ...]:
    return tuple(_network(part.strip()) for part in text.split(",") if part.strip())


def _network(text: str) -> Network:
    network = ipaddress.ip_network(text, strict=False)
    if "%" in text:
        raise ValueError(f"'{text}' has a zone: write it without")
    if ipaddress.ip_interface(text).ip != network.network_address:
        raise ValueError(f"'{text}' is an address within a network: write {network}")
    return network


def _texts(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _header(text: str) -> str:
    if not _HEADER.fullmatch(text.lower()):
        raise ValueError(f"'{text}' is not the name of a header")
    return text.lower()


def _tenant(text: str) -> str:
    return _guid(text, "a tenant")


def _client_id(text: str) -> str:
    return _guid(text, "an application")


def _guid(text: str, whose: str) -> str:
    if not _GUID.fullmatch(text.lower()):
        raise ValueError(f"'{text}' is not the id of {whose} (a GUID)")
    return text.lower()


def _issuers(tenant: str | None) -> tuple[str, ...]:
    """Return who issues a tenant's tokens: of version 2, and of version 1."""
    return (f"{LOGIN}/{tenant}/v2.0", f"https://sts.windows.net/{tenant}/") if tenant else ()


def _scale(text: str) -> float:
    return _between(1, 100_000, text)


def _seconds(text: str) -> timedelta:
    return timedelta(seconds=_between(0, 3600, text))


def _between(least: float, most: float, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = float("nan")
    if not least <= number <= most:
        raise ValueError(f"'{text}' is not a number from {least:g} to {most:g}")
    return number


def _url(text: str) -> str:
    if not text.startswith(("https://", "http://")):
        raise ValueError(f"'{text}' is not an http or https URL")
    return text.rstrip("/")


def _https(text: str) -> str:
    if not text.startswith("https://"):
        raise ValueError(f"'{text}' is not an https URL")
    return text.rstrip("/")


def _choice(choices: type[E]) -> Callable[[str], E]:
    one_of = _one_of(frozenset(each.value for each in choices))
    return lambda text: choices(one_of(text.lower()))


def _one_of(allowed: frozenset[str]) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in allowed:
            raise ValueError(f"'{text}' is none of {', '.join(sorted(allowed))}")
        return text

    return parse
