"""What could not be delivered: records, batches, blob names. Pure."""
