"""Reads a deployment's answers: a document, a refusal, or what no deployment answers."""

from __future__ import annotations

import json
import re
from codecs import BOM_UTF8
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote

import requests

from cli.failure import REFUSED, CommandFailed, DocumentFault

_ADMIN_KEY = "Give the admin key with --admin-key or PUSHGRID_ADMIN_KEY, or use --entra."
_SHOWN = 500  # characters of an answer


class _Document(dict[str, Any]):
    """An object of an answer: a member that commands need and that is missing ends them."""

    def __missing__(self, name: str) -> Any:
        raise CommandFailed(f"{_STRANGE}: a document has no member '{name}'", REFUSED)


# Azure's sentences for its own support, which a deployment repeats.
_SUPPORT = re.compile(
    r" For troubleshooting, visit https://aka\.ms/\w+\."
    r"| Activity id:[^,]*, timestamp: .*? \(UTC\)\."
)
_MISSING = re.compile(
    r"The Resource 'Microsoft\.EventGrid/"
    r"(?P<path>(?:(?:namespaces|topics|systemTopics|eventSubscriptions)/[^/']+/?)+)'"
    r" under resource group '[^']*' was not found(?:\.|; did you mean '(?P<near>[^']*)'\?)"
)
_HANDSHAKE = re.compile(r"Webhook validation handshake failed for (?P<url>\S+)\. (?P<why>.*)")
_NO_ANSWER = re.compile(r"Http \w+ request failed with response code Unknown \(([^)]+)\)")
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


def raise_if_refused(answer: requests.Response, *, remedy: str = _ADMIN_KEY) -> None:
    """
    Return if the deployment has done what it was asked; *remedy*: if it does not know who asks.

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
    faults: list[DocumentFault] = []
    try:
        error = answer.json()["error"]
        details = error.get("details") or ()
        said = [error["message"]]
        said += [each["message"] for each in details if each["message"] not in error["message"]]
        message = f"{error['code']}: " + "\n  ".join(
            dict.fromkeys(_in_short(each) for each in said)
        )
        faults = [
            DocumentFault(_in_short(each["message"]), each.get("target"))
            for each in details or [error]
        ]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        message = (
            f"{_beginning(answer)}: is --url or PUSHGRID_URL the address of a deployment,"
            " and does it run behind its proxy?"
        )
    if remedy and answer.status_code in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
        message += f"\n  {remedy}"
    raise CommandFailed(
        f"{answer.status_code} {message}", REFUSED, answer.status_code, tuple(faults)
    )


def _in_short(message: object) -> str:
    """Return a message of the API without Azure's support: the cause, then what to do."""
    text = _SUPPORT.sub("", str(message))
    if missing := _MISSING.fullmatch(text):
        there_is_no, lists = _not_there(missing["path"].split("/"))
        near = missing["near"]
        return f"{there_is_no}; did you mean '{near}'?" if near else f"{there_is_no}: see '{lists}'"
    if not (found := _HANDSHAKE.fullmatch(text)):
        return text
    why = _NO_ANSWER.sub(r"\1", found["why"])
    return f"handshake with {found['url']}: {why}"


def _not_there(path: Sequence[str]) -> tuple[str, str]:
    """Return that there is no such resource, and the command that lists those there are."""
    names = [unquote(each) for each in path[1::2]]
    if path[-2] == "eventSubscriptions":
        what = f"event subscription '{names[-1]}' of '{'.'.join(names[:-1])}'"
        return f"there is no {what}", "pushgrid subscription list"
    if path[-2] == "systemTopics":
        return f"there is no system topic '{names[-1]}'", "pushgrid topic list"
    kind = path[-2].removesuffix("s")
    return f"there is no {kind} '{'.'.join(names)}'", f"pushgrid {kind} list"


def _beginning(answer: requests.Response) -> str:
    """Return what was answered, in one line; of a page for browsers only the status has words."""
    is_page = answer.content.removeprefix(BOM_UTF8).lstrip().startswith(b"<")
    text = "" if is_page else " ".join(answer.text[:_SHOWN].split())
    return text or str(answer.reason)
