"""Test doubles and clients that the demo, the benchmark and the tests run beside the host."""
