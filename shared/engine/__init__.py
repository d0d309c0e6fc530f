"""The use cases: gather, decide, act. Owns the ports that the adapters implement."""
