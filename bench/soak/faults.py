"""Fails a share of the storage requests of a verb, in each way in which requests fail."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from bench.soak.azurite_deployment import AzuriteDeployment, Stage
from bench.soak.soak_deployment import Attacked, Step, wait_until
from testbed.storage_proxy import HANGING, Attack, Failure, StorageRequest

VERBS = {
    "GET": {"GET", "HEAD"},
    "PUT": {"PUT", "PATCH", "MERGE"},
    "POST": {"POST"},
    "DELETE": {"DELETE"},
}
SHARE = 0.3
_HITS, _TIMEOUTS = 24, 4  # of a run; a timeout takes the client ten seconds
_SECONDS = 40.0  # in which they are awaited
STAGE = Stage()


def steps(chance: Random) -> list[Step[AzuriteDeployment]]:
    """Return a step for each failure and verb, in an order of chance."""
    found = [
        Step(f"fault: {failure}, {verb}", failing(failure, verb, chance.randrange(10**6)))
        for failure in Failure
        for verb in VERBS
    ]
    chance.shuffle(found)
    return found


def brief_steps(chance: Random) -> list[Step[AzuriteDeployment]]:
    """Return one step in which every other request fails, in some way."""
    return [Step("fault: every other request", failing(None, None, chance.randrange(10**6)))]


def failing(
    failure: Failure | None, verb: str | None, seed: int
) -> Callable[[AzuriteDeployment], Attacked]:
    """Make an attack that fails requests; without *failure* and *verb* all, but for timeouts."""
    kinds = [failure] if failure else [each for each in Failure if each not in HANGING]
    verbs = VERBS[verb] if verb else set().union(*VERBS.values())
    share = SHARE if failure else 0.5
    enough = _TIMEOUTS if failure in HANGING else _HITS if failure else 10 * _HITS

    def attack(deployment: AzuriteDeployment) -> Attacked:
        chance, hits = Random(seed), [0]

        def at(request: StorageRequest) -> Attack | None:
            if request.verb not in verbs or hits[0] >= enough or chance.random() >= share:
                return None
            hits[0] += 1
            return Attack(chance.choice(kinds))

        deployment.storage.proxy.attack = at
        with deployment.traffic.flowing():
            wait_until(lambda: hits[0] >= enough, _SECONDS)
        deployment.storage.proxy.attack = None
        return Attacked(1)

    return attack
