"""Publishing: events and their input schemas, topics, authorization, answers. Pure."""
