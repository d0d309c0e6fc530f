"""How one event reaches one endpoint: messages, push requests, outcomes, profiles, policy. Pure."""
