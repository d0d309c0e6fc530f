"""What the host waits for when it stops."""

import asyncio

from devhost.host import finish


def test_a_message_that_arrives_while_the_host_stops_is_finished(run, queue, app, a_listener):
    """Storage answers a request that was sent before the stop, and the function takes a while."""
    queue.put("late")
    queue.delays["receive"], app.seconds = 5, 3
    listener = a_listener()

    async def scene() -> None:
        running = asyncio.create_task(listener.run())
        await asyncio.sleep(1)
        listener.stop()
        await finish([running], [listener.drain])

    run(scene())

    assert queue.texts == []
