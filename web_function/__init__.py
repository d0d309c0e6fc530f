"""Serves what is for neither topics nor resources: sign-in, console, status and links."""

import azure.functions as func

from shared import wiring
from shared.adapters.functions_http import to_request, to_response

wiring.load_http_function()  # A fault is the answer to every request.


def main(req: func.HttpRequest) -> func.HttpResponse:
    """Answer one request."""
    return to_response(wiring.web(to_request(req)))
