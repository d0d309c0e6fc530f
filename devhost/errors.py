"""What the host tells a person, each as one line."""


class HostError(Exception):
    """
    The host cannot do what was asked of it.

    The text is for a person: one line, what is wrong and where.
    """


class BadFunctionError(HostError):
    """One function cannot be served; the others go on."""


class InvocationError(Exception):
    """An invocation failed; it has been reported, so whoever called decides only what follows."""
