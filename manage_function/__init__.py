"""Serves ``subscriptions/…``: the management API, shaped as Azure Resource Manager's."""

import azure.functions as func

from shared import wiring
from shared.adapters import functions_http

wiring.read_settings()  # A fault is the answer to every request.


def main(req: func.HttpRequest) -> func.HttpResponse:
    """Answer one management request."""
    return functions_http.to_response(wiring.manage().run(functions_http.to_request(req)))
