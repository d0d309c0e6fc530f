"""Serves ``subscriptions/…``: the management API, shaped as Azure Resource Manager's."""

import azure.functions as func

from shared.adapters.functions_http import to_request, to_response
from shared.wiring.function_app import APP

APP.load_http()  # A fault is the answer to every request.


def main(req: func.HttpRequest) -> func.HttpResponse:
    """Answer one management request."""
    return to_response(APP.manage(to_request(req)))
