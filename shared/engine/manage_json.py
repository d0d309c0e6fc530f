"""JSON of management requests and answers, strict in what comes in."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NoReturn

from shared.errors import AppError, Fault, InvalidDocument, TooLarge
from shared.http import HttpAnswer

LONGEST_BODY = 1_048_576
DEEPEST = 64
_CODE = "InvalidRequestContent"


def read_json(body: bytes) -> object:
    """
    Parse the body of a request.

    Raises:
        TooLarge: it is larger than 1 MiB.
        InvalidDocument: it is not JSON, or no number, text or depth that can be kept.
    """
    if len(body) > LONGEST_BODY:
        message = f"The request content is larger than {LONGEST_BODY} bytes."
        raise TooLarge(message, faults=(Fault(code="RequestEntityTooLarge", message=message),))
    try:
        value = json.loads(
            body.decode("utf-8-sig"), parse_constant=_refuse_number, parse_float=_finite
        )
        _check_depth(value)
        # Half of a surrogate pair is legal in JSON's escapes, but can't be written as UTF-8.
        json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        message = "The request content was invalid and could not be deserialized"
        # The decoder's own words quote nothing of the body but its position.
        reason = error.msg if isinstance(error, json.JSONDecodeError) else _reason(error)
        fault = Fault(code=_CODE, message=f"{message}: '{reason}'.")
        raise InvalidDocument(fault.message, faults=(fault,)) from error
    return value


def answer(status: int, document: Mapping[str, Any] | None = None) -> HttpAnswer:
    """Build an answer; without a document it has no body."""
    if document is None:
        return HttpAnswer(status=status)
    headers = {"Content-Type": "application/json; charset=utf-8"}
    return HttpAnswer(
        status=status,
        headers=headers,
        body=json.dumps(document, separators=(",", ":")).encode(),
    )


def error_answer(error: AppError) -> HttpAnswer:
    """
    Build ARM's error document.

    A single fault is the error itself; more of them are its details, under the error's own code.
    """
    first = error.faults[0]
    is_one = len(error.faults) == 1
    return answer(
        error.status,
        {
            "error": {
                "code": first.code if is_one else error.code,
                "message": first.message if is_one else error.message,
                "target": first.target if is_one else None,
                "details": []
                if is_one
                else [
                    {"code": fault.code, "message": fault.message, "target": fault.target}
                    for fault in error.faults
                ],
                "additionalInfo": [],
            }
        },
    )


def _refuse_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _finite(text: str) -> float:
    number = float(text)
    if number in {float("inf"), float("-inf")}:
        _refuse_number(text[:32])
    return number


def _check_depth(value: object) -> None:
    level = [value]
    for _ in range(DEEPEST):
        level = [
            item
            for outer in level
            if isinstance(outer, dict | list)
            for item in (outer.values() if isinstance(outer, dict) else outer)
        ]
    # What is left lies within as many levels; only another one there is too many.
    if any(isinstance(item, dict | list) for item in level):
        raise ValueError(f"it is nested deeper than {DEEPEST} levels")


def _reason(error: Exception) -> str:
    if isinstance(error, UnicodeError):
        return "it is not UTF-8"
    return "it is nested too deep" if isinstance(error, RecursionError) else str(error)
