"""Pauses a restored copy, and keeps the file that a server was given, beside its app."""

from __future__ import annotations

from functools import partial

from cli.deployment import Deployment, subscription_path
from cli.serving.in_process import deployment_of
from cli.serving.kept_file import KeptFile
from server.served_app import ServedApp
from shared import telemetry

_FIRST_SECONDS = 10.0  # until the server is ready: endpoints may take long to consent


class BesideTheApp:
    """
    Implements the server's `Beside`; *url* is where the server is reached on this machine.

    *hold* pauses every event subscription before the first delivery. The *file* gets
    *first_seconds* before the server is ready; what it refuses keeps nothing waiting.
    """

    def __init__(
        self,
        url: str,
        file: KeptFile | None,
        *,
        hold: bool = False,
        first_seconds: float = _FIRST_SECONDS,
    ) -> None:
        self._url = url
        self._file = file
        self._hold = hold
        self._first_seconds = first_seconds

    def before_deliveries(self, app: ServedApp) -> None:
        if self._hold:
            pause_all(deployment_of(app, self._url, "--hold"))

    def begin(self, app: ServedApp) -> None:
        if self._file:
            api = deployment_of(app, self._url, f"--file {self._file.name}")
            app.threads.begin(
                partial(self._file.follow, api, app.home.has_waiting, lambda: app.home.is_elected)
            )
            self._file.has_been_applied.wait(self._first_seconds)

    def reload(self) -> None:
        if self._file:
            self._file.reload()


def pause_all(api: Deployment) -> None:
    """
    Pause every event subscription that is not paused.

    One that can't be read is logged: its events wait until it can.

    Raises:
        CommandFailed: the deployment refuses.
    """
    paused = 0
    for topic in api.status("topics")["value"]:
        for each in topic.get("subscriptions", ()):
            if not each["isReadable"]:
                detail = "it can't be read: its events wait"
                telemetry.warning("server.unheld", subscription=each["name"], detail=detail)
                continue
            api.post(f"{subscription_path(topic['name'], each['name'])}/pause")
            paused += 1
    telemetry.info("server.held", subscriptions=paused)
