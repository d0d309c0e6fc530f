"""Accepts events: POST to a topic of a namespace."""

import azure.functions as func

from shared import wiring
from shared.adapters.functions_http import to_request, to_response

wiring.load_http_function()  # A fault is the answer to every request.


async def main(req: func.HttpRequest) -> func.HttpResponse:
    """Accept events."""
    return to_response(await wiring.publish(to_request(req)))
