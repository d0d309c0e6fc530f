"""Reads a deployment's answers: a document, a refusal, or what no deployment answers."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Any

import requests

from cli.failure import REFUSED, CommandFailed, Fault

_SHOWN = 500  # characters of an answer


class _Document(dict[str, Any]):
    """An object of an answer: a member that commands need and that is missing ends them."""

    def __missing__(self, name: str) -> Any:
        raise CommandFailed(f"{_STRANGE}: a document has no member '{name}'", REFUSED)


_STRANGE = "this is no answer of Pushgrid, or of another version"


def document_of(answer: requests.Response) -> Any:
    """
    Return the JSON object in an answer.

    Raises:
        CommandFailed: it is none.
    """
    try:
        found = json.loads(answer.content, object_hook=_Document)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, _Document):
        said = f"{answer.status_code} {_beginning(answer)}"
        raise CommandFailed(f"{_STRANGE}: {said}", REFUSED, answer.status_code)
    return found


def raise_if_refused(answer: requests.Response) -> None:
    """
    Return if the deployment has done what it was asked.

    Raises:
        CommandFailed: it refuses, with its reasons, or is somewhere else.
    """
    if answer.status_code < HTTPStatus.MULTIPLE_CHOICES:
        return
    if answer.is_redirect:
        raise CommandFailed(
            f"{answer.status_code}: nothing was done; the deployment is at "
            f"{answer.headers['Location']}. Name its address with --url or PUSHGRID_URL.",
            REFUSED,
            answer.status_code,
        )
    faults: list[Fault] = []
    try:
        error = answer.json()["error"]
        details = error.get("details") or ()
        said = [error["message"]]
        said += [each["message"] for each in details if each["message"] not in error["message"]]
        message = f"{error['code']}: " + "\n  ".join(dict.fromkeys(map(str, said)))
        faults = [Fault(each["message"], each.get("target")) for each in details or [error]]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        message = _beginning(answer)
    if answer.status_code == HTTPStatus.UNAUTHORIZED:
        message += "\n  Give the admin key with --key or PUSHGRID_ADMIN_KEY, or use --entra."
    raise CommandFailed(
        f"{answer.status_code} {message}", REFUSED, answer.status_code, tuple(faults)
    )


def _beginning(answer: requests.Response) -> str:
    return answer.text[:_SHOWN] or str(answer.reason)
