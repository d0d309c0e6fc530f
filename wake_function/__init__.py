"""Moves deliveries out of long waits before they are due, on a timer."""

import azure.functions as func

from shared.wiring.function_app import APP

APP.load()  # A fault shows when the app is loaded.


def main(timer: func.TimerRequest) -> None:  # noqa: ARG001 - the host passes it by name
    """Move what is due soon to the queue that is delivered from."""
    APP.wake()
