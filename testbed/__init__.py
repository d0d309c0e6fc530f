"""Parts that demo, benchmark and tests run beside the host: a subscriber, an ARM client."""
