"""HTTP ``validate/{id}``: the links and callbacks by which endpoints are validated."""

import azure.functions as func

from shared import wiring
from shared.adapters import functions_http

wiring.settings()  # What is wrong with them shows when the app is loaded.


def main(req: func.HttpRequest) -> func.HttpResponse:
    """Accept the consent of an endpoint."""
    return functions_http.to_response(wiring.validate().run(functions_http.to_request(req)))
