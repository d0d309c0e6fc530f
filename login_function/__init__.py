"""Serves ``adfs/…``: Azure CLI signs in with the admin key."""

import azure.functions as func

from shared import wiring
from shared.adapters.functions_http import to_request, to_response

wiring.read_settings()  # A fault is the answer to every request.


def main(req: func.HttpRequest) -> func.HttpResponse:
    """Answer one request of a login."""
    return to_response(wiring.az_login().run(to_request(req)))
