"""Delivers messages of first attempts, from the queue ``deliveries``."""

import azure.functions as func

from shared.wiring.function_app import APP

APP.load()  # A fault shows when the app is loaded.


async def main(message: func.QueueMessage) -> None:
    """Push the deliveries of one queue message."""
    await APP.deliver(message.get_body(), "deliveries")
