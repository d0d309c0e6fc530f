"""Accepts events: POST and OPTIONS of a custom topic's endpoint."""

import azure.functions as func

from shared.adapters.functions_http import to_request, to_response
from shared.wiring.function_app import APP

APP.load_http()  # A fault is the answer to every request.
APP.take_blob_changes()


async def main(req: func.HttpRequest) -> func.HttpResponse:
    """Accept events."""
    return to_response(await APP.publish(to_request(req)))
