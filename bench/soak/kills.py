"""Kills the host at a storage request of each kind, before or after it is passed on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from random import Random

from azure.core.exceptions import ResourceExistsError
from azure.data.tables import TableServiceClient

from bench.soak.soak_deployment import Attacked, SoakDeployment, Stage, Step, wait_until
from devhost.process import RunningHost
from testbed.storage_proxy import Attack, Failure, StorageRequest
from testbed.subscriber import Push

#: Each kind that the traffic causes within seconds; rarer ones come after a longer wait.
KINDS = (
    *(
        f"queue {verb} {queue}"
        for queue in ("deliveries", "retries", "waiting", "deadletters", "deliveries-poison")
        for verb in ("put", "get", "delete")
    ),
    *(f"blob {verb} payloads" for verb in ("write", "read", "batch", "list")),
    "blob write dead-refusing",
    "blob lease azure-webjobs-hosts",
    *(f"table {verb} topics" for verb in ("query", "insert", "write")),
    *(f"table {verb} eventsubscriptions" for verb in ("query", "insert", "delete")),
    *(f"table {verb} endpointhealth" for verb in ("query", "write", "delete")),
    "table batch",
    "table write metrics",
)
#: Those of the short form: of each thing that is stored, and none that takes long to come.
BRIEF = (
    "queue put deliveries",
    "queue delete deliveries",
    "queue put retries",
    "queue delete waiting",
    "queue delete deadletters",
    "blob write payloads",
)
SIDES = ("before", "after")
STAGE = Stage()
LATE_STAGE = Stage(settings={"PUSHGRID_TIME_SCALE": "4"})  # the retry is hidden for 2.5 s
_LATE = 30.5  # seconds: half a second after the acknowledgement timeout, which is never scaled
REACHED_IN = 40.0  # seconds; a kind that does not come counts as no run
_PUSH = "push received, unanswered"


def steps(chance: Random) -> list[Step]:
    """Return a step for each kind, in which the host is killed before one and after another."""
    attacks = {
        kind: [killed_at(kind, side, chance.randint(1, 3)) for side in SIDES] for kind in KINDS
    }
    attacks[_PUSH] = [killed_at_push(chance.randint(5, 60)) for _ in SIDES]
    found = [Step(f"kill -9: {kind}", one_after_the_other(two)) for kind, two in attacks.items()]
    chance.shuffle(found)
    return found


def brief_steps(chance: Random) -> list[Step]:
    """Return one step that kills at some kinds, one after the other."""
    attacks = [killed_at(kind, chance.choice(SIDES), chance.randint(1, 2)) for kind in BRIEF]
    return [Step("kill -9", one_after_the_other([*attacks, killed_at_push(40)]))]


def one_after_the_other(
    attacks: Sequence[Callable[[SoakDeployment], Attacked]],
) -> Callable[[SoakDeployment], Attacked]:
    """Make one attack of several, between which nothing is awaited."""

    def attack(deployment: SoakDeployment) -> Attacked:
        done = [each(deployment) for each in attacks]
        return Attacked(sum(each.runs for each in done), sum(each.messages for each in done))

    return attack


def killed_at(kind: str, side: str, place: int) -> Callable[[SoakDeployment], Attacked]:
    """Make an attack that kills the host at the request of *kind* with this *place*, from 1."""

    def attack(deployment: SoakDeployment) -> Attacked:
        def arm() -> None:
            deployment.storage.proxy.attack = _kill_at(kind, side, place, deployment.hosts[0])
            _let_housekeeping_run(deployment)

        return _killed(deployment, arm)

    return attack


def _kill_at(
    kind: str, side: str, place: int, victim: RunningHost
) -> Callable[[StorageRequest], Attack | None]:
    left = [place]

    def at(request: StorageRequest) -> Attack | None:
        if request.kind != kind or victim.process.poll() is not None:
            return None
        left[0] -= 1
        if left[0]:
            return None
        if side == "before":
            victim.kill()
            return Attack(Failure.RESET)
        return Attack(Failure.UNANSWERED, victim.kill)

    return at


def killed_at_push(place: int) -> Callable[[SoakDeployment], Attacked]:
    """Make an attack that kills the host when a push has arrived: others are half answered."""

    def attack(deployment: SoakDeployment) -> Attacked:
        left, lock, victim = [place], threading.Lock(), deployment.hosts[0]

        def at(_: Push) -> None:
            with lock:
                left[0] -= 1
                if left[0] == 0:
                    victim.kill()

        def arm() -> None:
            deployment.on_push = at

        return _killed(deployment, arm)

    return attack


def late_steps(_: Random) -> list[Step]:
    """Return a step that kills when a late answer takes its retry back."""
    attacks = [killed_at_late_answer(side) for side in SIDES]
    return [Step("kill -9: late answer, queue delete retries", one_after_the_other(attacks))]


def killed_at_late_answer(side: str) -> Callable[[SoakDeployment], Attacked]:
    """Make an attack that kills the host at the request that a late answer causes."""

    def attack(deployment: SoakDeployment) -> Attacked:
        is_held, victim = threading.Event(), deployment.hosts[0]

        def hold(push: Push) -> None:
            if push.path.endswith("/steady") and not is_held.is_set():
                is_held.set()
                time.sleep(_LATE)
                deployment.storage.proxy.attack = _kill_at("queue delete retries", side, 1, victim)

        deployment.on_push = hold
        with deployment.traffic.flowing():
            wait_until(is_held.is_set, REACHED_IN)
        done = _after(deployment, victim, _LATE + REACHED_IN)
        return done._replace(messages=done.messages + 1)  # the late answer's own delivery

    return attack


def _killed(deployment: SoakDeployment, arm: Callable[[], None]) -> Attacked:
    """Publish, arm the attack, and publish until the first host is dead."""
    victim, accepted = deployment.hosts[0], deployment.ledger.accepted
    before = len(accepted)
    with deployment.traffic.flowing():
        wait_until(lambda: len(accepted) > before, REACHED_IN)
        arm()
        wait_until(lambda: victim.process.poll() is not None, REACHED_IN)
    return _after(deployment, victim, 0)


def _after(deployment: SoakDeployment, victim: RunningHost, seconds: float) -> Attacked:
    """Wait until the *victim* is dead, and start another."""
    is_reached = wait_until(lambda: victim.process.poll() is not None, seconds)
    deployment.storage.proxy.attack = deployment.on_push = None
    messages = deployment.storage.messages()
    deployment.restart_hosts()
    return Attacked(int(is_reached), messages * is_reached)


def _let_housekeeping_run(deployment: SoakDeployment) -> None:
    """Let the last housekeeping be two hours ago, and leave a payload that has expired."""
    with deployment.storage.blobs() as blobs:
        payloads = blobs.get_container_client("payloads")
        with suppress(ResourceExistsError):  # The app may make it at the same moment.
            payloads.create_container()
        payloads.upload_blob("2026010100/expired", b"{}", overwrite=True)
    now = datetime.now(UTC)
    last, paused = now - timedelta(hours=2), now - timedelta(hours=1)
    row = {
        "PartitionKey": "state",
        "RowKey": "housekeeping",
        "document": f'{{"lastRun":"{last.isoformat()}","holdUntil":"{paused.isoformat()}"}}',
    }
    connection = deployment.storage.azurite.connection_string
    with TableServiceClient.from_connection_string(connection) as tables:
        tables.get_table_client("topics").upsert_entity(row)
