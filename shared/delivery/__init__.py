"""Decides how events reach endpoints: messages, requests, outcomes, profiles, policy. Pure."""
