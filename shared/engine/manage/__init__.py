"""Implements the management API: topics and event subscriptions as ARM documents."""
