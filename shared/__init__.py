"""Holds all the code of the app; the function folders beside it only translate."""

VERSION = "0.1.0"
