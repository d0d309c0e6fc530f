"""Rotates the secret that signs the deliveries of an event subscription."""

from __future__ import annotations

from collections.abc import Callable

from shared.arm.arm_json import answer, read_json
from shared.arm.signing_codec import parse_rotation, with_new_secret
from shared.engine.manage.call import Call, ManagePorts
from shared.engine.manage.subscriptions import Subscriptions
from shared.http import HttpAnswer
from shared.subscriptions.signing import to_secret

# The age of cached subscriptions, the longest wait in an endpoint's line, and a connection's time.
EFFECTIVE_IN = "2 minutes"


def secret_rotation_of(form: Subscriptions) -> Callable[[ManagePorts, Call], HttpAnswer]:
    """Return the handler for event subscriptions in one form."""

    def rotate(ports: ManagePorts, call: Call) -> HttpAnswer:
        """
        Sign with a new secret, and with the one before it until the next rotation.

        The body may have the ``secret``. The answer is the only one that shows it.
        """
        secret = parse_rotation(read_json(call.body or b"{}")) or to_secret(ports.new_key())
        form.change(ports, call, "rotateSecret", lambda stored: with_new_secret(stored, secret))
        message = (
            f"Within {EFFECTIVE_IN} every delivery is signed with this secret and with the one "
            "before it: let the receiver use this one from then on. Any older one has ended."
        )
        return answer(200, {"secret": secret, "message": message})

    return rotate
