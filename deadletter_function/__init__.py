"""Writes due dead letters to blobs, and does the housekeeping, on a timer."""

import azure.functions as func

from shared.wiring.function_app import APP

APP.load()  # A fault shows when the app is loaded.


def main(timer: func.TimerRequest) -> None:  # noqa: ARG001 - the host passes it by name
    """Write dead letters, handle poison, remove expired payloads."""
    APP.write_dead_letters()
