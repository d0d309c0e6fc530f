"""Records what Azure CLI sends: Python imports this module at its start, if it is on the path."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from requests import PreparedRequest, Response
from requests.adapters import HTTPAdapter

_send = HTTPAdapter.send


def _recorded(self: HTTPAdapter, request: PreparedRequest, *args: Any, **options: Any) -> Response:
    """Send *request*; if it goes to AZ_HOST, add a line of JSON about it to the file AZ_RECORD."""
    response = _send(self, request, *args, **options)
    if str(request.url).startswith(os.environ["AZ_HOST"]):
        body = request.body.decode() if isinstance(request.body, bytes) else request.body
        line: dict[str, Any] = {"method": request.method, "url": request.url, "body": body}
        line |= {"status": response.status_code, "answer": response.text}
        with Path(os.environ["AZ_RECORD"]).open("a") as record:
            record.write(json.dumps(line) + "\n")
    return response


HTTPAdapter.send = _recorded  # type: ignore[method-assign]
