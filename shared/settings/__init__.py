"""Reads the app's settings from environment variables and checks them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from difflib import get_close_matches
from enum import StrEnum
from functools import partial
from typing import Any, TypeVar

from shared.errors import Fault, InvalidSettings
from shared.settings.network_settings import (
    EgressProxy,
    Network,
    egress_proxy,
    name_servers,
    networks,
)
from shared.settings.storage_settings import (
    UNRESOLVED,
    Connection,
    account_name,
    deadletter_accounts,
    has_queues,
    settings_named,
    storage_setting,
)

E = TypeVar("E", bound=StrEnum)

LOGIN = "https://login.microsoftonline.com"
EVENT_GRID_AUDIENCE = ("https://eventgrid.azure.net",)
MANAGEMENT_AUDIENCE = ("https://management.azure.com",)


class AttemptLogging(StrEnum):
    """Which delivery attempts go to the tables of attempts."""

    FAILURES = "failures"
    ALL = "all"
    OFF = "off"


class PublishLogging(StrEnum):
    """Whether the log has a line for each commit or for each publish request in it."""

    COMMITS = "commits"
    REQUESTS = "requests"


class LogFormat(StrEnum):
    """How attempts and refusals are logged: a whole record, or a line that fits a terminal."""

    JSON = "json"
    TEXT = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything that can be set, each with the name of its environment variable in ``NAMES``."""

    storage: Connection = field(repr=False)
    # The host reads the schedules; without one it leaves out that timer only.
    wake_schedule: str | None = None
    deadletter_schedule: str | None = None
    deadletter_accounts: Mapping[str, Connection] = field(default_factory=dict, repr=False)
    own_account: str = "pushgrid"  # as which documents name data that is in no storage account
    # Both are valid at the same time; without any the management API is closed to keys.
    admin_key: str | None = field(default=None, repr=False)
    admin_key_2: str | None = field(default=None, repr=False)
    reader_key: str | None = field(default=None, repr=False)
    profile: str = "latest"
    public_url: str | None = None  # ``None``: taken from the request
    allow_http: bool = False
    allowed_networks: tuple[Network, ...] = ()
    name_servers: tuple[str, ...] = ()
    time_scale: float = 1.0
    local_shortcuts: bool = False
    cache_for: timedelta = timedelta(seconds=5)
    endpoint_limit: int = 256
    attempt_log: AttemptLogging = AttemptLogging.FAILURES
    endpoint_answers: bool = True
    publish_log: PublishLogging = PublishLogging.COMMITS
    log_format: LogFormat = LogFormat.JSON
    trace_context: bool = True
    replay_header: bool = False
    honor_retry_after: bool = False
    probation_counts_attempt: bool = False
    probation_ends_events: bool = False
    client_ip_header: str | None = None  # in lower case
    ca_bundle: str | None = None
    egress_proxy: EgressProxy | None = None
    client_certificate: str | None = field(default=None, repr=False)
    client_key: str | None = field(default=None, repr=False)
    client_key_password: str | None = field(default=None, repr=False)
    az_login: bool = False
    console: bool = True
    entra_tenant: str | None = None  # issuers and the URL of keys are derived from it
    entra_issuer: tuple[str, ...] = ()
    entra_jwks_url: str | None = None
    entra_audience: tuple[str, ...] = EVENT_GRID_AUDIENCE
    entra_management_audience: tuple[str, ...] = MANAGEMENT_AUDIENCE
    webhook_client_id: str | None = None
    webhook_client_secret: str | None = field(default=None, repr=False)
    webhook_certificate: str | None = field(default=None, repr=False)
    webhook_authority: str = LOGIN

    @property
    def unset_schedules(self) -> Mapping[str, str]:
        """The timers that the host leaves out, each with the setting that is missing."""
        schedules = {"wake": self.wake_schedule, "deadletter": self.deadletter_schedule}
        return {timer: NAMES[f"{timer}_schedule"] for timer, text in schedules.items() if not text}

    @property
    def queue_accounts(self) -> frozenset[str]:
        """The other accounts into whose queues events may go."""
        return frozenset(name for name, how in self.deadletter_accounts.items() if has_queues(how))

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
_GUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_HEADER = re.compile(r"[a-z0-9-]+")
_OURS = "PUSHGRID_"
STORE = "PUSHGRID_STORE"  # of a server
_OF_THE_COMMAND = frozenset(  # commands read it, or the server does; no settings of the app
    {
        "PUSHGRID_URL",
        "PUSHGRID_SCOPE",
        "PUSHGRID_INSECURE",
        "PUSHGRID_ENTRA_SCOPE",
        "PUSHGRID_ADMIN_KEY_FILE",
        "PUSHGRID_READER_KEY_FILE",
        STORE,
        f"{STORE}_FILE",
    }
)


def from_environ(
    environ: Mapping[str, str], profiles: frozenset[str], *, needs_storage: bool = True
) -> Settings:
    """
    Read the settings; *profiles* are the names of the delivery profiles.

    *needs_storage*: without the setting of the storage account they are not valid.

    Raises:
        InvalidSettings: all faults at once. A value is never quoted: it may be a secret, or one
            that was meant for another setting.
    """
    faults: list[Fault] = []
    values: dict[str, Any] = {"storage": _storage(environ, faults) if needs_storage else {}}
    needing: dict[str, Callable[[str], Any]] = {
        "profile": _one_of(profiles),
        "deadletter_accounts": lambda text: deadletter_accounts(text, environ),
    }
    for member, (name, parse) in _SETTINGS.items():
        if text := environ.get(name, "").strip():
            try:
                values[member] = needing.get(member, parse)(text)
            except ValueError as error:
                faults.append(Fault(code="InvalidSetting", message=f"{name}: {error}", target=name))
    if needs_storage and "own_account" in values:
        name = NAMES["own_account"]
        message = f"{name}: the account is that of {STORAGE}: unset it"
        faults.append(Fault(code="InvalidSetting", message=message, target=name))
    _complete_entra(values, faults)
    if values.get("az_login") and values["entra_jwks_url"]:
        name = NAMES["az_login"]
        message = f"{name} and Entra ID exclude each other: set {name}=false, or leave out Entra ID"
        faults.append(Fault(code="InvalidSetting", message=message, target=name))
    if values.get("reader_key") in {values.get("admin_key"), values.get("admin_key_2")} - {None}:
        name = NAMES["reader_key"]
        message = f"{name}: is an admin key as well: whoever reads could change everything"
        faults.append(Fault(code="InvalidSetting", message=message, target=name))
    if faults:
        raise InvalidSettings("; ".join(fault.message for fault in faults), faults=tuple(faults))
    return Settings(**values)


def unresolved(environ: Mapping[str, str]) -> tuple[str, ...]:
    """
    Return the names of settings that hold a Key Vault reference instead of its value.

    A secret among them counts as unset: the text of a reference is not secret.
    """
    names = (*NAMES.values(), *_named_by_setting(environ))
    return tuple(name for name in names if environ.get(name, "").strip().startswith(UNRESOLVED))


def unknown(environ: Mapping[str, str]) -> Mapping[str, str | None]:
    """Return variables named like settings that are none, each with the nearest setting."""
    known = sorted(name.removeprefix(_OURS) for name in NAMES.values() if name.startswith(_OURS))
    ours = {name for name in environ if name.startswith(_OURS)}
    ours -= {*_named_by_setting(environ), *_OF_THE_COMMAND}
    given = (name.removeprefix(_OURS) for name in sorted(ours))
    nearest = {each: get_close_matches(each, known, 1) for each in given if each not in known}
    return {_OURS + name: _OURS + near[0] if near else None for name, near in nearest.items()}


def _complete_entra(values: dict[str, Any], faults: list[Fault]) -> None:
    """Derive issuers and keys from the tenant; without one both are set, or neither."""
    tenant = values.get("entra_tenant")
    issuers = values.setdefault("entra_issuer", _issuers(tenant))
    keys = f"{LOGIN}/{tenant}/discovery/v2.0/keys" if tenant else None
    if (values.setdefault("entra_jwks_url", keys) is None) != (not issuers):
        given, missing = ("entra_issuer", "entra_jwks_url")[:: 1 if issuers else -1]
        message = f"{NAMES[missing]} is not set, but {NAMES[given]} is: set both or neither"
        faults.append(Fault(code="MissingSetting", message=message, target=NAMES[missing]))


def _storage(environ: Mapping[str, str], faults: list[Fault]) -> Mapping[str, str]:
    setting = storage_setting(STORAGE, environ)
    if not setting:
        message = f"{STORAGE} is not set: it names the storage account"
        faults.append(Fault(code="MissingSetting", message=message, target=STORAGE))
    return setting


def _secret(text: str) -> str | None:
    return None if text.startswith(UNRESOLVED) else text


def _named_by_setting(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of the settings that hold connection strings of other accounts."""
    return tuple(settings_named(environ.get(NAMES["deadletter_accounts"], "")))


def _boolean(text: str) -> bool:
    if text.lower() not in {"true", "false", "1", "0"}:
        raise ValueError("not a boolean: use true or false")
    return text.lower() in {"true", "1"}


def _texts(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _header(text: str) -> str:
    if not _HEADER.fullmatch(text.lower()):
        raise ValueError("not a header name")
    return text.lower()


def _guid(text: str, whose: str) -> str:
    if not _GUID.fullmatch(text.lower()):
        raise ValueError(f"not the id of {whose}: use its GUID")
    return text.lower()


def _issuers(tenant: str | None) -> tuple[str, ...]:
    """Return who issues a tenant's tokens: of version 2, and of version 1."""
    return (f"{LOGIN}/{tenant}/v2.0", f"https://sts.windows.net/{tenant}/") if tenant else ()


def _seconds(text: str) -> timedelta:
    return timedelta(seconds=_between(0, 3600, text))


def _between(least: float, most: float, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = float("nan")
    if not least <= number <= most:
        raise ValueError(f"not a number between {least:g} and {most:g}")
    return number


def _whole(least: int, most: int, text: str) -> int:
    number = _between(least, most, text)
    if number != int(number):
        raise ValueError("not a whole number")
    return int(number)


def _url(text: str) -> str:
    if not text.startswith(("https://", "http://")):
        raise ValueError("not an http or https URL")
    if "@" in text.split("/")[2]:
        raise ValueError("has a user name or password: leave it out")
    return text.rstrip("/")


def _https(text: str) -> str:
    if not text.startswith("https://"):
        raise ValueError("not an https URL")
    return _url(text)


def _choice(choices: type[E]) -> Callable[[str], E]:
    one_of = _one_of(frozenset(each.value for each in choices))
    return lambda text: choices(one_of(text.lower()))


def _one_of(allowed: frozenset[str]) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in allowed:
            raise ValueError(f"not one of {', '.join(sorted(allowed))}")
        return text

    return parse


_SETTINGS: Mapping[str, tuple[str, Callable[[str], Any]]] = {
    "wake_schedule": ("PUSHGRID_WAKE_SCHEDULE", str),
    "deadletter_schedule": ("PUSHGRID_DEADLETTER_SCHEDULE", str),
    "deadletter_accounts": ("PUSHGRID_DEADLETTER_ACCOUNTS", str),
    "own_account": ("PUSHGRID_OWN_ACCOUNT", account_name),
    "admin_key": ("PUSHGRID_ADMIN_KEY", _secret),
    "admin_key_2": ("PUSHGRID_ADMIN_KEY_2", _secret),
    "reader_key": ("PUSHGRID_READER_KEY", _secret),
    "profile": ("PUSHGRID_PROFILE", str),
    "public_url": ("PUSHGRID_PUBLIC_URL", _url),
    "allow_http": ("PUSHGRID_ALLOW_HTTP", _boolean),
    "allowed_networks": ("PUSHGRID_ALLOWED_NETWORKS", networks),
    "name_servers": ("PUSHGRID_NAME_SERVERS", name_servers),
    "time_scale": ("PUSHGRID_TIME_SCALE", partial(_between, 1, 100_000)),
    "local_shortcuts": ("PUSHGRID_LOCAL_SHORTCUTS", _boolean),
    "cache_for": ("PUSHGRID_CACHE_SECONDS", _seconds),
    "endpoint_limit": ("PUSHGRID_ENDPOINT_LIMIT", partial(_whole, 1, 4096)),
    "attempt_log": ("PUSHGRID_ATTEMPT_LOG", _choice(AttemptLogging)),
    "endpoint_answers": ("PUSHGRID_ENDPOINT_ANSWERS", _boolean),
    "publish_log": ("PUSHGRID_PUBLISH_LOG", _choice(PublishLogging)),
    "log_format": ("PUSHGRID_LOG_FORMAT", _choice(LogFormat)),
    "trace_context": ("PUSHGRID_TRACE_CONTEXT", _boolean),
    "replay_header": ("PUSHGRID_REPLAY_HEADER", _boolean),
    "honor_retry_after": ("PUSHGRID_HONOR_RETRY_AFTER", _boolean),
    "probation_counts_attempt": ("PUSHGRID_PROBATION_COUNTS_ATTEMPT", _boolean),
    "probation_ends_events": ("PUSHGRID_PROBATION_ENDS_EVENTS", _boolean),
    "client_ip_header": ("PUSHGRID_CLIENT_IP_HEADER", _header),
    "ca_bundle": ("PUSHGRID_CA_BUNDLE", _secret),
    "egress_proxy": ("PUSHGRID_EGRESS_PROXY", egress_proxy),
    "client_certificate": ("PUSHGRID_CLIENT_CERTIFICATE", _secret),
    "client_key": ("PUSHGRID_CLIENT_KEY", _secret),
    "client_key_password": ("PUSHGRID_CLIENT_KEY_PASSWORD", _secret),
    "az_login": ("PUSHGRID_AZ_LOGIN", _boolean),
    "console": ("PUSHGRID_CONSOLE", _boolean),
    "entra_tenant": ("PUSHGRID_ENTRA_TENANT", partial(_guid, whose="a tenant")),
    "entra_issuer": ("PUSHGRID_ENTRA_ISSUER", _texts),
    "entra_jwks_url": ("PUSHGRID_ENTRA_JWKS_URL", _url),
    "entra_audience": ("PUSHGRID_ENTRA_AUDIENCE", _texts),
    "entra_management_audience": ("PUSHGRID_ENTRA_MANAGEMENT_AUDIENCE", _texts),
    "webhook_client_id": ("PUSHGRID_WEBHOOK_CLIENT_ID", partial(_guid, whose="an application")),
    "webhook_client_secret": ("PUSHGRID_WEBHOOK_CLIENT_SECRET", _secret),
    "webhook_certificate": ("PUSHGRID_WEBHOOK_CERTIFICATE", _secret),
    "webhook_authority": ("PUSHGRID_WEBHOOK_AUTHORITY", _https),
}
NAMES = {"storage": STORAGE} | {member: name for member, (name, _) in _SETTINGS.items()}
#: The settings whose values are secrets; those that `deadletter_accounts` names are, too.
SECRETS = frozenset(
    NAMES[member]
    for member in (
        "admin_key",
        "admin_key_2",
        "reader_key",
        "client_certificate",
        "client_key",
        "client_key_password",
        "egress_proxy",
        "webhook_client_secret",
        "webhook_certificate",
    )
)
