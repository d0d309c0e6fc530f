"""What clients of earlier api-versions need to be told in another way."""

from __future__ import annotations

import json
from dataclasses import replace

from shared.events import literals
from shared.http import HttpAnswer

READS_ONCE = "2025-02-15"  # the first api-version whose clients read an answer once
_STATES = {"PUT": "Creating", "PATCH": "Updating"}
_SETTLED = "Succeeded"


def settled_later(answer: HttpAnswer, method: str, api_version: str) -> HttpAnswer:
    """
    Let a client of an earlier api-version ask again for what it has just written.

    Such a client reads the answer to a write twice, and the first reading takes the types of
    destinations, filters and mappings out of it. As with Azure itself, the answer says that the
    resource is not settled yet; so the client gets it once more, at once, and finds it settled.

    Source: azure-mgmt-eventgrid 10.2.0 and 9.0.0 with msrest 0.7.1, as run.
    """
    if method not in _STATES or api_version >= READS_ONCE or not answer.body:
        return answer
    document = json.loads(answer.body)
    properties = document.get("properties", {})
    if properties.get("provisioningState") != _SETTLED:
        return answer
    properties["provisioningState"] = _STATES[method]
    return replace(answer, body=literals.dumps(document).encode())
