"""Prints what happens as it happens: coloured lines for people, JSON for programs."""

from __future__ import annotations

import json
import threading
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from rich.text import Text

from cli.local.narration import PAUSED, NarratedLine, narrate, narrates_wait
from cli.output import Console
from cli.terminal import counted, printable_json

_STYLES = {
    "applied": "cyan",
    "dead-lettered": "magenta",
    "delivered": "green",
    "dropped": "red",
    "error": "bold red",
    "file": "bold red",
    "given up": "red",
    "handshake": "blue",
    "held": "yellow",
    "published": "cyan",
    "refused": "red",
    "released": "green",
    "replay": "cyan",
    "retry": "yellow",
    "settings": "bold red",
    "unsigned": "bold red",
    "warning": "yellow",
}
_HOLD = "hold"
_KIND, _ABOUT = max(map(len, _STYLES)), 20  # characters of the columns


class Screen:
    """
    Prints from any thread.

    *verbose*: the host's log as well. *as_json*: each line is an object with ``at`` (ISO 8601,
    UTC), ``kind``, ``about``, ``text``, and ``log``, the log entry that says it. *time_scale*
    stands beside each wait that it divides.
    """

    def __init__(
        self, *, as_json: bool = False, verbose: bool = False, time_scale: str = "1"
    ) -> None:
        self._time_scale = time_scale
        self._as_json = as_json
        self._verbose = verbose
        self._console = Console(highlight=False, soft_wrap=True)
        self._lock = threading.Lock()
        # Deliveries that met a hold, by event subscription and by what holds them.
        self._held: dict[str, dict[str, int]] = {}

    @property
    def has_reader(self) -> bool:
        """Whether anybody can read what is printed: not after ``pushgrid dev | head``."""
        return not self._console.quiet

    def on_host_line(self, line: str) -> None:
        """Tell what a line of the host's log says."""
        if self._verbose:
            self._print(NarratedLine("log", "", line), Text(line, style="dim"))
        activity = narrate(line)
        if activity and (told := self._without_repeats(activity)):
            is_scaled = self._time_scale != "1" and narrates_wait(told.entry)
            scale = f"; time scale {self._time_scale}" if is_scaled else ""
            self.tell(told._replace(text=f"{told.text}{scale}"))

    def _without_repeats(self, activity: NarratedLine) -> NarratedLine | None:
        """
        Return what to print of *activity*: of a hold only its beginning and its end.

        In between its events are counted. A hold that began in another process, or before this one,
        is printed when the first event meets it.
        """
        entry = activity.entry
        held = self._held.setdefault(activity.about, {})
        match entry.get("event"):
            case "hold.began":
                held.setdefault(_HOLD if "until" in entry else PAUSED, 0)
            case "hold.ended":
                count = sum(self._held.pop(activity.about).values())
                waited = f"; {counted(count, 'delivery')} held, repeats counted" if count else ""
                return activity._replace(text=f"{activity.text}{waited}")
            case "delivery.run" if activity.kind == "held":
                why = entry["held_because"]
                kind = why if why.startswith(PAUSED) else _HOLD
                is_told = kind in held or (kind != _HOLD and PAUSED in held)
                held[kind] = held.get(kind, 0) + held.pop(PAUSED, 0) + entry.get("held", 0)
                return None if is_told else activity
        return activity

    def tell(self, activity: NarratedLine) -> None:
        """Print what happened, after the time of day."""
        kind, about, text, events, _ = activity
        style = _STYLES.get(kind, "")
        self._print(
            activity,
            Text.assemble(
                (f"{datetime.now().astimezone():%H:%M:%S}  ", "dim"),
                (f"{kind:<{_KIND}}  ", style),
                f"{about:<{_ABOUT}}  " if about else "",
                (text, style if not about else ""),
                (f"  ({events})" if events else "", "dim"),
            ),
        )

    def show(self, kind: str, text: str) -> None:
        """Print a fact about the deployment, under its name."""
        self._print(NarratedLine(kind, "", text), Text(f"  {kind:<{_KIND}} {text}"))

    def ready(self, url: str) -> None:
        """Tell people and programs that requests are accepted at *url*."""
        self._print(NarratedLine("ready", "", url), Text(f"ready {url}", style="bold"))

    def say(self, text: str) -> None:
        """Print a sentence for people."""
        self._print(NarratedLine("note", "", text), Text(text))

    def _print(self, activity: NarratedLine, line: Text) -> None:
        with self._lock, suppress(SystemExit):  # which rich raises when the reader has gone
            self._console.print(Text(_json(activity)) if self._as_json else line)


def _json(activity: NarratedLine) -> str:
    kind, about, text, _, entry = activity
    document: dict[str, Any] = {
        "at": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "kind": kind,
    }
    document |= {name: value for name, value in (("about", about), ("text", text)) if value}
    document |= {"log": entry} if entry else {}
    return printable_json(json.dumps(document, ensure_ascii=False))
