"""Delivers messages of first attempts, from the queue ``deliveries``."""

import azure.functions as func

from shared import wiring

wiring.load_function()  # A fault shows when the app is loaded.


async def main(message: func.QueueMessage) -> None:
    """Push the deliveries of one queue message."""
    await wiring.deliver(message.get_body(), "deliveries")
