"""Defines publishing: events and their input schemas, topics, authorization, answers. Pure."""
