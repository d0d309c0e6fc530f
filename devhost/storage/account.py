"""Reads a connection setting: the addresses of a storage account and its credential."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import formatdate
from typing import Any
from urllib.parse import unquote, urlsplit

from devhost import azurite
from devhost.errors import BadFunctionError

API_VERSION = "2024-11-04"
_URL = re.compile(r"https?://[!-~]+", re.IGNORECASE)
_SAS = re.compile(r"[!-~]*")
_SCOPE = "https://storage.azure.com/.default"
# What names a managed identity, and azure.identity's word for it.
_IDENTITIES = {
    "clientid": "client_id",
    "managedidentityclientid": "client_id",
    "managedidentityresourceid": "resource_id",
    "managedidentityobjectid": "object_id",
}
# Seconds, where the library would take minutes: the host tries again by itself.
_TOKEN_LIMITS: dict[str, Any] = {"connection_timeout": 2, "read_timeout": 5, "retry_total": 0}
_PREFIXES = ("ConnectionStrings:AzureWebJobs", "AzureWebJobs", "ConnectionStrings:", "")
_DEVELOPMENT = (
    f"AccountName={azurite.ACCOUNT};AccountKey={azurite.KEY};"
    f"BlobEndpoint=http://127.0.0.1:10000/{azurite.ACCOUNT};"
    f"QueueEndpoint=http://127.0.0.1:10001/{azurite.ACCOUNT}"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountConnection:
    """One account; exactly one of *key*, *sas* and *credential* is set."""

    name: str
    queue_url: str
    blob_url: str
    key: bytes | None = None
    sas: str = ""
    #: An azure.identity credential.
    credential: Any = None

    @property
    def hint(self) -> str:
        """Advice for when a local account does not answer; empty for other accounts."""
        if self.name != azurite.ACCOUNT:
            return ""
        return " (is Azurite running? `make azurite` or --azurite starts one)"

    def sign(self, method: str, path: str, query: Mapping[str, str], length: int) -> dict[str, str]:
        """Return the headers that authorize a request; *path* starts after the host name."""
        headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": API_VERSION}
        if self.credential is not None:
            token = self.credential.get_token(_SCOPE).token
            return headers | {"Authorization": f"Bearer {token}"}
        if self.key is None:
            return headers
        # Shared Key of the queue service; the empty lines are headers that are never sent.
        parameters = "".join(f"\n{name}:{query[name]}" for name in sorted(query))
        canonical = (
            f"{method}\n\n\n{length or ''}\n\n\n\n\n\n\n\n\n"
            f"x-ms-date:{headers['x-ms-date']}\nx-ms-version:{API_VERSION}\n"
            f"/{self.name}{path}{parameters}"
        )
        digest = hmac.new(self.key, canonical.encode(), hashlib.sha256).digest()
        signature = base64.b64encode(digest).decode()
        return headers | {"Authorization": f"SharedKey {self.name}:{signature}"}

    def sdk_credential(self) -> Any:
        """Return a credential for the clients of azure.storage."""
        if self.key is not None:
            key = base64.b64encode(self.key).decode()
            return {"account_name": self.name, "account_key": key}
        if self.sas:
            from azure.core.credentials import AzureSasCredential

            return AzureSasCredential(self.sas)
        return self.credential


def find_account(connection: str, environ: Mapping[str, str]) -> AccountConnection:
    """
    Return the account of the setting or section *connection*.

    Raises:
        BadFunctionError: the setting is missing or malformed.
    """
    setting = connection_setting(connection, environ)
    if text := setting.get(""):
        return _from_connection_string(text, connection)
    if setting:
        return _from_section(setting, connection)
    raise BadFunctionError(f"setting {connection} (the storage account) is missing")


def connection_setting(connection: str, environ: Mapping[str, str]) -> Mapping[str, str]:
    """
    Return a connection string under ``''``, or the members of a section in lower case.

    Names are case-insensitive, ``:`` and ``__`` mean the same, and an empty value is not set. The
    first prefix that has a value wins, and there a string before a section.

    Source: azure-webjobs-sdk, IConfigurationExtensions.GetWebJobsConnectionSection.
    """
    settings = {
        name.replace("__", ":").lower(): text.strip()
        for name, text in environ.items()
        if text.strip()
    }
    for prefix in _PREFIXES:
        name = f"{prefix}{connection}".lower()
        if name in settings:
            return {"": settings[name]}
        below = [each for each in settings if each.startswith(f"{name}:")]
        if below:
            return {each.removeprefix(f"{name}:"): settings[each] for each in below}
    return {}


def _from_connection_string(text: str, setting: str) -> AccountConnection:
    if text.replace(" ", "").rstrip(";").lower() == "usedevelopmentstorage=true":
        text = _DEVELOPMENT
    fields = {
        name.strip().lower(): value.strip()
        for name, equals, value in (part.partition("=") for part in text.split(";"))
        if equals
    }
    protocol = fields.get("defaultendpointsprotocol", "https")
    name, suffix = fields.get("accountname", ""), fields.get("endpointsuffix", "core.windows.net")
    queue_url = fields.get("queueendpoint") or (name and f"{protocol}://{name}.queue.{suffix}")
    blob_url = fields.get("blobendpoint") or (name and f"{protocol}://{name}.blob.{suffix}")
    if not queue_url or not blob_url:
        raise BadFunctionError(f"setting {setting} is not a storage connection string")
    sas = fields.get("sharedaccesssignature", "").lstrip("?")
    if not _SAS.fullmatch(sas):
        raise BadFunctionError(f"setting {setting}: the SharedAccessSignature is malformed")
    return AccountConnection(
        name=name or _account_name(queue_url),
        queue_url=_url(queue_url, setting),
        blob_url=_url(blob_url, setting),
        key=_key(fields.get("accountkey"), setting),
        sas=sas,
    )


def _key(text: str | None, setting: str) -> bytes | None:
    if not text:
        return None
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as fault:
        raise BadFunctionError(f"setting {setting}: the AccountKey is not base64") from fault


def _from_section(section: Mapping[str, str], connection: str) -> AccountConnection:
    account = section.get("accountname")
    queue_url, blob_url = (
        f"https://{account}.{service}.core.windows.net"
        if account
        else section.get(f"{service}serviceuri") or section.get("serviceuri", "")
        for service in ("queue", "blob")
    )
    if not queue_url:
        raise BadFunctionError(f"setting {connection}__queueServiceUri is missing")
    try:
        credential = _credential(section)
    except ValueError as fault:
        raise BadFunctionError(f"setting {connection}__credential: {fault}") from None
    queue_url, blob_url = (url and _url(url, connection) for url in (queue_url, blob_url))
    for url in (queue_url, blob_url):
        if url and not url.lower().startswith("https://"):
            raise BadFunctionError(f"setting {connection} is not https, which tokens require")
    return AccountConnection(
        name=account or _account_name(queue_url),
        queue_url=queue_url,
        blob_url=blob_url,
        credential=credential,
    )


def _credential(section: Mapping[str, str]) -> Any:
    """
    Return the credential that a section names.

    Raises:
        ValueError: it names no known identity, or more than one.

    Source: Microsoft.Extensions.Azure, ClientFactory.CreateCredential (2026).
    """
    import azure.identity as entra  # half a second's work

    given = {_IDENTITIES[name]: text for name, text in section.items() if name in _IDENTITIES}
    tenant, client = section.get("tenantid"), section.get("clientid")
    match section.get("credential", "").lower():
        case "managedidentity":
            if sum(name in section for name in _IDENTITIES) > 1:
                raise ValueError("more than one identity is named")
            client = given.pop("client_id", None)
            return entra.ManagedIdentityCredential(
                client_id=client, identity_config=given, **_TOKEN_LIMITS
            )
        case "workloadidentity":
            return entra.WorkloadIdentityCredential(
                tenant_id=tenant,
                client_id=client,
                token_file_path=section.get("tokenfilepath"),
                **_TOKEN_LIMITS,
            )
        case "" if tenant and client and (secret := section.get("clientsecret")):
            return entra.ClientSecretCredential(
                tenant_id=tenant, client_id=client, client_secret=secret, **_TOKEN_LIMITS
            )
        case "" if not given.keys() - {"client_id"}:
            client = section.get("managedidentityclientid") or client
            chosen = {"managed_identity_client_id": client} if client else {}
            return entra.DefaultAzureCredential(**chosen, **_TOKEN_LIMITS)
    raise ValueError("not one of managedidentity, workloadidentity")


def _url(text: str, setting: str) -> str:
    text = text.rstrip("/")
    try:
        parts = urlsplit(text)
        has_host = parts.port != 0 and bool((parts.hostname or "").encode("idna"))
    except ValueError:  # an empty or too long part of the name is one as well
        has_host = False
    if not has_host or not _URL.fullmatch(text):
        raise BadFunctionError(f"setting {setting} is not a storage address")
    return text


def _account_name(url: str) -> str:
    parts = urlsplit(url)
    return unquote(parts.path.strip("/")) or (parts.hostname or "").split(".")[0]
