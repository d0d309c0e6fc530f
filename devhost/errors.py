"""What the host tells a person, each as one line."""


class HostError(Exception):
    """
    The host cannot do what was asked of it.

    The text is for a person: one line, what is wrong and where.
    """


class BadFunctionError(HostError):
    """One function cannot be served; the others go on."""


def class_and_words(fault: BaseException | None) -> str:
    """Return what is told of an exception of the app's."""
    if isinstance(fault, BrokenFunctionError):
        return str(fault)
    try:
        return f"{type(fault).__name__}: {fault}"
    # The words are the app's code as well.
    except Exception:  # noqa: BLE001
        return f"{type(fault).__name__}: it has no text, as its __str__ fails"


class BrokenFunctionError(Exception):
    """A function that could not be loaded was called; the text is why it could not."""


class InvocationError(Exception):
    """An invocation failed; it has been reported, so whoever called decides only what follows."""
