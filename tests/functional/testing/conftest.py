from __future__ import annotations

from pushgrid.testing.plugin import pushgrid

__all__ = ["pushgrid"]
