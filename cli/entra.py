"""Gets the operator's token from Entra ID, for an audience that no deployment can choose freely."""

from __future__ import annotations

import logging
import re
from urllib.parse import urlsplit

from cli.deployment import Deployment
from cli.failure import CommandFailed
from cli.sending import is_private
from devhost.origin import host_name

_RESOURCE = re.compile(r'\bresource="([A-Za-z0-9:/._-]+)"')  # as Azure Key Vault names it
_SCHEMES = ("https", "api")  # of audiences that name a host


def entra_token(scope: str) -> str:
    """
    Return a token for *scope*, by whichever login there is.

    Raises:
        CommandFailed: there is none.
    """
    try:
        from azure.core.exceptions import ClientAuthenticationError
        from azure.identity import DefaultAzureCredential
    except ModuleNotFoundError:
        raise CommandFailed("--entra needs a package: pip install 'pushgrid[azure]'") from None

    logging.getLogger("azure.identity").setLevel(logging.CRITICAL)  # It tells each login it tried.
    try:
        return DefaultAzureCredential().get_token(scope).token
    except ClientAuthenticationError as error:
        fix = "sign in with 'az login', or leave out --entra and give the admin key"
        raise CommandFailed(f"Entra ID gave no token for {scope}: {fix}") from error


def claimed_scope(deployment: Deployment) -> str:
    """
    Return the scope that *deployment* asks for, if its tokens are good at that host alone.

    Whoever gets a token can use it wherever its audience is accepted, and a host can claim any.

    Raises:
        CommandFailed: it asks for none, or for one that is good elsewhere, or over plain http.
    """
    url = deployment.url
    if not is_private(url):
        raise CommandFailed(
            "over http anybody on the way can answer for the deployment: with --entra and "
            "--insecure, give --entra-scope"
        )
    found = _RESOURCE.search(deployment.challenge())
    if not found:
        raise CommandFailed(
            f"{url} names no audience: unless PUSHGRID_ENTRA_TENANT is set there, give the admin "
            "key instead of --entra; if it is, add --entra-scope"
        )
    audience = found[1].rstrip("/")
    parts, own = urlsplit(audience), host_name(urlsplit(url).netloc)
    if parts.scheme not in _SCHEMES or not own or host_name(parts.netloc) != own:
        raise CommandFailed(
            f"{url} wants a token for {audience}, which may be good elsewhere, too: if it may have "
            f"one, add --entra-scope {audience}/.default (or set PUSHGRID_ENTRA_SCOPE)"
        )
    return f"{audience}/.default"
