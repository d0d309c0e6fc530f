"""Locates the app: the folder that holds host.json and the function folders."""

from __future__ import annotations

from pathlib import Path

HOME = Path(__file__).parents[1]
