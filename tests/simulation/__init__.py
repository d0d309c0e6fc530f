"""A whole deployment in simulated time: see docs/testing.md."""
