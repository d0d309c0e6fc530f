"""Serves ``validate/{id}``: the links and callbacks by which endpoints are validated."""

import azure.functions as func

from shared import wiring
from shared.adapters import functions_http

wiring.read_settings()  # A fault is the answer to every request.


def main(req: func.HttpRequest) -> func.HttpResponse:
    """Accept the consent of an endpoint."""
    return functions_http.to_response(wiring.validate().run(functions_http.to_request(req)))
