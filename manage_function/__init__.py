"""Serves ``subscriptions/…``: the management API, shaped as Azure Resource Manager's."""

import azure.functions as func

from shared import wiring
from shared.adapters.functions_http import to_request, to_response

wiring.load_http_function()  # A fault is the answer to every request.


def main(req: func.HttpRequest) -> func.HttpResponse:
    """Answer one management request."""
    return to_response(wiring.manage(to_request(req)))
