"""What a step on storage may end with, whichever service it was."""


class StaleReceiptError(Exception):
    """The message was deleted, updated or received again by somebody else."""


class QueueGoneError(Exception):
    """There is no such queue, or not now."""


class StorageBusyError(Exception):
    """Storage cannot be reached, says 5xx or what nobody understands; it may work later."""


class StorageRefusedError(Exception):
    """Storage understood and said no; asking again will not help."""
