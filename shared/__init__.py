"""Holds all the code of the app; the function folders beside it only translate."""
