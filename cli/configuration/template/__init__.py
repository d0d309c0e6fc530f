"""Reads the topics and event subscriptions of compiled Bicep and ARM templates."""
