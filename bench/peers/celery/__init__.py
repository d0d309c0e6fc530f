"""Runs Celery on RabbitMQ: confirmed publishes of persistent messages, late acknowledgements."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench.load import Case
from bench.peers.system import (
    IN_FLIGHT,
    Need,
    PublishTarget,
    System,
    free_port,
    output_of,
    program,
    running,
)

_FOLDER = Path(__file__).parent
_INSTALLED = Path(__file__).parents[3] / ".venv-celery" / "bin" / "celery"
_FRONT = ("--worker-class", "gthread", "--threads", "16", "--keep-alive", "75", "front:app")
_WORKER = ("--pool", "threads", "--concurrency", str(IN_FLIGHT), "--loglevel", "ERROR")
_ALONE = ("--without-gossip", "--without-mingle", "--without-heartbeat")


def _versions() -> dict[str, str]:
    pins = (_FOLDER / "requirements.txt").read_text().splitlines()
    with _running_name_server() as (_, env):
        rabbitmq = output_of([program("rabbitmqctl") or "", "version"], env=env).strip()
    return {
        "rabbitmq": rabbitmq,
        "celery": next(
            pin.partition("==")[2].rstrip(" \\") for pin in pins if pin.startswith("celery==")
        ),
    }


@contextmanager
def _start(case: Case, sink: str) -> Iterator[PublishTarget]:
    port = free_port()
    with ExitStack() as stack:
        broker, stores = stack.enter_context(_running_rabbitmq())
        env = {"BROKER": broker, "SINK": sink, "SUBSCRIPTIONS": str(case.subscriptions)}
        gunicorn = [str(_INSTALLED.with_name("gunicorn")), "--bind", f"127.0.0.1:{port}"]
        front = [*gunicorn, *_FRONT]
        accepts = stack.enter_context(running(front, env=env, cwd=_FOLDER, port=port))
        worker = [str(_INSTALLED), "-A", "tasks", "worker", *_WORKER, *_ALONE]
        delivers = stack.enter_context(running(worker, env=env, cwd=_FOLDER))
        url = f"http://127.0.0.1:{port}/events"
        yield PublishTarget(url, processes=(stores, accepts, delivers))


@contextmanager
def _running_name_server() -> Iterator[tuple[str, dict[str, str]]]:
    """Run Erlang's name server; yield a temporary folder and the settings of programs beside it."""
    port = free_port()
    env = {"ERL_EPMD_ADDRESS": "127.0.0.1", "ERL_EPMD_PORT": str(port)}
    with (
        tempfile.TemporaryDirectory() as folder,
        running([program("epmd") or ""], env=env, port=port),
    ):
        yield folder, env | {"HOME": folder}  # where Erlang keeps its cookie


@contextmanager
def _running_rabbitmq() -> Iterator[tuple[str, int]]:
    """Run a RabbitMQ on free ports of 127.0.0.1; yield its URL and its process."""
    port, distribution = free_port(), free_port()
    with _running_name_server() as (folder, beside):
        env = beside | {
            "RABBITMQ_CONF_ENV_FILE": f"{folder}/none",
            "RABBITMQ_CONFIG_FILE": f"{folder}/none",
            "RABBITMQ_DIST_PORT": str(distribution),
            "RABBITMQ_ENABLED_PLUGINS_FILE": f"{folder}/none",
            "RABBITMQ_GENERATED_CONFIG_DIR": folder,
            "RABBITMQ_LOG_BASE": folder,
            "RABBITMQ_MNESIA_BASE": folder,
            "RABBITMQ_NODENAME": "peers@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(port),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
        }
        with running([program("rabbitmq-server") or ""], env=env, port=port) as process:
            yield f"pyamqp://guest:guest@127.0.0.1:{port}//", process


CELERY = System(
    name="Celery",
    needs=(
        Need("rabbitmq-server", "apt install rabbitmq-server"),
        Need("epmd", "apt install erlang-base"),
        Need(_INSTALLED, "make bench OF=peers"),
    ),
    versions=_versions,
    start=_start,
)
