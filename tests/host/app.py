"""Makes a function app of probe functions in a folder."""

from __future__ import annotations

import itertools
import json
import shutil
from pathlib import Path
from typing import Any

_PROBE = Path(__file__).with_name("probe") / "probe.py"
_BUNDLE = {"id": "Microsoft.Azure.Functions.ExtensionBundle", "version": "[4.*, 5.0.0)"}


class App:
    """An app's folder: host.json, local.settings.json and a folder for each function."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._gates = itertools.count()
        self.records = root / "records.jsonl"
        self.host_json()
        self.local_settings()

    def host_json(self, *, prefix: str = "", **changes: Any) -> None:
        """Write host.json; *changes* are properties of `extensions.queues`."""
        queues = {"maxPollingInterval": "00:00:00.500"} | changes
        document = {
            "version": "2.0",
            "extensionBundle": _BUNDLE,
            "extensions": {"http": {"routePrefix": prefix}, "queues": queues},
        }
        self._write(self.root / "host.json", document)

    def local_settings(self, **values: str) -> None:
        """Write local.settings.json."""
        settled = {"FUNCTIONS_WORKER_RUNTIME": "python"} | values
        self._write(self.root / "local.settings.json", {"IsEncrypted": False, "Values": settled})

    def queue(self, name: str, queue: str, **binding: Any) -> None:
        """Add a queue function."""
        self._add(
            name, "queue", {"type": "queueTrigger", "name": "message", "queueName": queue}, binding
        )

    def timer(self, name: str, schedule: str, **binding: Any) -> None:
        """Add a timer function, or give it another schedule."""
        self._add(
            name, "timer", {"type": "timerTrigger", "name": "tick", "schedule": schedule}, binding
        )

    def http(self, name: str, route: str | None = None, **binding: Any) -> None:
        """Add an HTTP function."""
        trigger = {"type": "httpTrigger", "name": "req", "authLevel": "anonymous"}
        if route is not None:
            trigger["route"] = route
        self._add(name, "http", trigger, binding)

    def break_import(self, name: str) -> None:
        """Make function *name* fail when it is imported."""
        (self.root / name / "__init__.py").write_text("import no_such_module_anywhere\n")

    def gate(self) -> Path:
        """Return a new file for `wait <file>`; the invocation ends when the file is made."""
        return self.root / f"gate-{next(self._gates)}"

    def _add(self, name: str, kind: str, trigger: dict[str, Any], binding: dict[str, Any]) -> None:
        folder = self.root / name
        folder.mkdir(exist_ok=True)
        bindings = [{"direction": "in", **trigger, **binding}]
        if kind == "http":
            bindings.append({"type": "http", "direction": "out", "name": "$return"})
        document = {"scriptFile": "__init__.py", "entryPoint": kind, "bindings": bindings}
        self._write(folder / "function.json", document)
        shutil.copy(_PROBE, folder / "__init__.py")

    @staticmethod
    def _write(path: Path, document: object) -> None:
        path.write_text(json.dumps(document, indent=2))
