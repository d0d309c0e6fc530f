"""Serves ``status/…``: health for everybody, metrics in Prometheus' format for the operator."""

import azure.functions as func

from shared import wiring
from shared.adapters.functions_http import to_request, to_response

wiring.read_settings()  # A fault is the answer to every request.


def main(req: func.HttpRequest) -> func.HttpResponse:
    """Answer how things are."""
    return to_response(wiring.status().run(to_request(req)))
