"""Replays dead letters: jobs, where they look, and the steps that carry them out."""
