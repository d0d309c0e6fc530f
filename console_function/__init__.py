"""Serves ``console``: the page for operators, its styles and its scripts."""

import azure.functions as func

from shared import wiring
from shared.adapters.functions_http import to_request, to_response


def main(req: func.HttpRequest) -> func.HttpResponse:
    """Answer with a file; it needs no settings, so the page opens even if they are wrong."""
    return to_response(wiring.console_files().run(to_request(req)))
