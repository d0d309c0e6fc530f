"""Serves what is for neither topics nor resources: sign-in, console, status and links."""

import azure.functions as func

from shared.adapters.functions_http import to_request, to_response
from shared.wiring import web_routes
from shared.wiring.function_app import APP

APP.load_http()  # A fault is the answer to every request.


def main(req: func.HttpRequest) -> func.HttpResponse:
    """Answer one request."""
    return to_response(web_routes.answer(APP, to_request(req)))
