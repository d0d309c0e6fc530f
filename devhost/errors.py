"""Defines errors of the host and of the app, each with a text that fits on one line."""


class HostError(Exception):
    """
    The host cannot do what was asked.

    The text is for a person: one line, what is wrong and where.
    """


class BadFunctionError(HostError):
    """One function cannot be served; the others can."""


def class_and_message(fault: BaseException | None) -> str:
    """Return an app exception's class and message."""
    if isinstance(fault, BrokenFunctionError):
        return str(fault)
    try:
        return f"{type(fault).__name__}: {fault}"
    # __str__ is the app's code as well.
    except Exception:  # noqa: BLE001
        return f"{type(fault).__name__}: no message, its __str__ failed"


class BrokenFunctionError(Exception):
    """A function that could not be loaded was called; the text says why it could not."""


class InvocationError(Exception):
    """An invocation failed and has been reported; the caller only decides what follows."""
