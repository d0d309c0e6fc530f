"""
The templates say what the code says: names, settings, schedules, sizes.

`make infra` checks the language of the templates; this looks at their text, and only at what a
rename on one side alone would break.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

from shared import settings
from shared.adapters import attempt_rows, metric_rows, storage_account
from shared.delivery.profiles import PROFILES
from shared.engine.deployment_terms import DeploymentTerms
from shared.engine.ports import Queue, Table
from shared.subscriptions.dead_letter_codec import _OWN_CONTAINER
from tests.builders import a_topic

ROOT = Path(__file__).parents[2]
INFRA = ROOT / "infra"
#: What the host and its Python worker read (Functions' app settings reference).
OF_THE_HOST = {
    "APPLICATIONINSIGHTS_AUTHENTICATION_STRING",
    "APPLICATIONINSIGHTS_CONNECTION_STRING",
    "PYTHON_THREADPOOL_THREAD_COUNT",
}
#: Members of the host's storage connection that have to be there with a user-assigned identity.
STORAGE = {"blobServiceUri", "queueServiceUri", "tableServiceUri", "credential", "clientId"}
#: Of the code's settings: local stories, tuning, and other clouds.
NOT_WRITTEN = {
    "AzureWebJobsStorage",  # written as a section
    "PUSHGRID_CACHE_SECONDS",
    "PUSHGRID_ENTRA_ISSUER",
    "PUSHGRID_ENTRA_JWKS_URL",
    "PUSHGRID_TIME_SCALE",
    "PUSHGRID_WEBHOOK_AUTHORITY",
}
#: Settings with which Flex Consumption refuses an app, or which it ignores.
FORBIDDEN = re.compile(
    r"FUNCTIONS_(WORKER_RUNTIME|EXTENSION_VERSION|WORKER_PROCESS_COUNT|MAX_HTTP_CONCURRENCY)"
    r"|WEBSITE_(RUN_FROM_PACKAGE|CONTENT|MAX_DYNAMIC|VNET_ROUTE_ALL|TIME_ZONE)|SCM_DO_BUILD"
    r"|ENABLE_ORYX_BUILD|\bTZ:|linuxFxVersion"
)


def template(name: str) -> str:
    return (INFRA / name).read_text()


def listed(text: str, variable: str) -> list[str]:
    """Return the texts of an array variable, names of other variables as what those stand for."""
    body = re.search(rf"^var {variable} = \[\n(.*?)^\]", text, re.MULTILINE | re.DOTALL)
    assert body
    values = dict(re.findall(r"^var (\w+) = '([^']*)'$", text, re.MULTILINE))
    words = re.findall(r"^  (?:'([^']+)'|(\w+))$", body[1], re.MULTILINE)
    return [text or values[name] for text, name in words]


def written_settings() -> dict[str, str]:
    """Return the expressions of the app's settings."""
    app = template("modules/app.bicep")
    body = app.partition("name: 'appsettings'")[2].partition("\n  }\n")[0]
    return dict(re.findall(r"^    (\w+): (.+)$", body, re.MULTILINE))


def parameter(name: str) -> str:
    """Return what stands before a parameter of main.bicep, and the parameter."""
    found = re.search(rf"((?:^@.+\n)+)^param {name} (.+)$", template("main.bicep"), re.MULTILINE)
    assert found
    return found[0]


def test_every_queue_of_the_code_is_made_and_no_other() -> None:
    assert sorted(listed(template("modules/storage.bicep"), "queueNames")) == sorted(Queue)


def test_every_queue_with_a_trigger_has_its_poison_queue() -> None:
    folders = [json.loads(path.read_text()) for path in ROOT.glob("*_function/function.json")]
    bindings = [binding for folder in folders for binding in folder["bindings"]]
    triggered = [each["queueName"] for each in bindings if each["type"] == "queueTrigger"]
    made = listed(template("modules/storage.bicep"), "queueNames")

    assert triggered
    assert {f"{name}-poison" for name in triggered} == {name for name in made if "poison" in name}


def test_every_table_of_the_code_is_made_but_those_of_days() -> None:
    made = listed(template("modules/storage.bicep"), "tableNames")

    assert sorted(made) == sorted([*Table, metric_rows.TOTALS])
    for beginning in (attempt_rows.TABLE, metric_rows.MINUTES):
        assert beginning not in made
        assert f"{beginning}{{yyyymmdd}}" in template("README.md")


def test_the_containers_are_the_codes_and_one_that_dead_letters_may_go_to() -> None:
    made = listed(template("modules/storage.bicep"), "containerNames")
    ours = [name for name in made if _OWN_CONTAINER.fullmatch(name)]

    assert ours == [storage_account.PAYLOADS, storage_account.POISON, "app-package"]
    assert [name for name in made if name not in ours] == ["deadletters"]


def test_every_setting_that_is_written_is_read() -> None:
    names = set(written_settings())
    sections = {f"AzureWebJobsStorage__{member}" for member in STORAGE}

    assert sections <= names
    assert names - sections - OF_THE_HOST == set(settings.NAMES.values()) - NOT_WRITTEN
    assert names - sections >= OF_THE_HOST


def test_what_the_code_requires_has_a_value() -> None:
    """The timers' schedules; storage is above, and everything else has a default."""
    names = written_settings()

    assert names["PUSHGRID_WAKE_SCHEDULE"] == "'0 * * * * *'"
    assert names["PUSHGRID_DEADLETTER_SCHEDULE"] == "'0 */5 * * * *'"
    for path in ROOT.glob("*_function/function.json"):
        for name in re.findall(r"%(\w+)%", path.read_text()):
            assert name in names


def test_a_setting_that_is_written_empty_has_its_default() -> None:
    storage = {"AzureWebJobsStorage": "x"}
    empty = {name: "" for name in settings.NAMES.values() if name not in storage}
    profiles = frozenset(PROFILES)

    assert settings.from_environ(storage | empty, profiles) == settings.from_environ(
        storage, profiles
    )


@pytest.mark.parametrize(
    ("name", "values"), [("profileType", PROFILES), ("attemptLogType", settings.AttemptLogging)]
)
def test_what_can_be_chosen_is_what_the_code_knows(name: str, values: Iterable[str]) -> None:
    found = re.search(rf"^type {name} = (.+)$", template("modules/types.bicep"), re.MULTILINE)

    assert found
    assert re.findall(r"'(\w+)'", found[1]) == list(values)


@pytest.mark.parametrize("path", sorted(INFRA.rglob("*.bicep")), ids=lambda path: path.name)
def test_nothing_is_set_that_flex_refuses(path: Path) -> None:
    assert not FORBIDDEN.search(path.read_text())


def test_secrets_are_references_and_the_key_has_no_default() -> None:
    for name, value in written_settings().items():
        if name.endswith(("_KEY", "_SECRET", "_CERTIFICATE")):
            assert "@Microsoft.KeyVault(SecretUri=" in value
    assert "@secure()" in template("main.bicep").partition("param adminKey string\n")[0][-250:]
    assert "newGuid" not in "".join(path.read_text() for path in INFRA.rglob("*.bicep"))


def test_payloads_outlive_the_app_s_own_care_for_them() -> None:
    """A rule that deleted earlier would lose events; housekeeping may wait a day after a gap."""
    terms = DeploymentTerms(topics=None, default_profile="latest", time_scale=1)  # type: ignore[arg-type]
    longest = max(terms.payloads_kept_for(a_topic(profile=name)).days for name in PROFILES)
    text = parameter("payloadRetentionDays")
    least = re.search(r"@minValue\((\d+)\)", text)
    default = re.search(r"int = (\d+)", text)

    assert longest == 14
    assert least
    assert default
    assert int(default[1]) > int(least[1]) > longest + 1
    assert f"@minValue({least[1]})\n@maxValue(365)\nparam payloadRetentionDays" in template(
        "modules/storage.bicep"
    )


def test_a_request_never_waits_for_a_thread() -> None:
    assert written_settings()["PYTHON_THREADPOOL_THREAD_COUNT"] == "string(scale.httpConcurrency)"
    assert "perInstanceConcurrency: scale.httpConcurrency" in template("modules/app.bicep")


def test_the_host_says_nothing_of_runs_that_succeed_but_passes_on_every_line_of_ours() -> None:
    """Its two lines a run would cost more than the run; requests are kept beside them."""
    levels = json.loads((ROOT / "host.json").read_text())["logging"]["logLevel"]
    functions = {path.parent.name for path in ROOT.glob("*_function/function.json")}

    assert levels["default"] == "Information"
    assert levels["Function"] == "Warning"
    passed_on = {name for name in levels if name.startswith("Function.")}
    assert passed_on == {f"Function.{name}.User" for name in functions}
    assert {levels[name] for name in passed_on} == {"Information"}


def test_all_instances_fit_into_a_region_s_quota() -> None:
    """250 cores of 2,048 MB: three groups that scale (http, two queues), and two timers."""
    most = re.search(r"int = (\d+)", parameter("maximumInstanceCount"))

    assert most
    assert "= 2048" in parameter("instanceMemoryMB")
    assert 3 * int(most[1]) + 2 <= 250


def test_the_parameters_file_gives_every_parameter_and_no_other() -> None:
    document = json.loads(template("main.parameters.json"))
    values = {name: each["value"] for name, each in document["parameters"].items()}
    declared = re.findall(r"^param (\w+) \S+( = (.+))?$", template("main.bicep"), re.MULTILINE)

    assert list(values) == [name for name, *_ in declared]
    for name, _, default in declared:
        given = re.fullmatch(r"\$\{[A-Z_]+(?:=(.*))?\}", values[name])
        assert given, values[name]
        assert (given[1] or "") == default.strip("'"), name


def test_the_guide_names_every_variable_and_every_pinned_action() -> None:
    guide = (ROOT / "docs/deploy.md").read_text()
    given = set(re.findall(r"\$\{(PUSHGRID_\w+)", template("main.parameters.json")))
    table = guide.partition("### What can be chosen")[2].partition("## ")[0]
    workflows = "".join(path.read_text() for path in (ROOT / ".github/workflows").glob("*.yml"))
    pinned = set(re.findall(r"uses: (\S+)@(\S+) # (\S+)", workflows))

    assert set(re.findall(r"`(PUSHGRID_[A-Z_]+)`", table)) == given
    rows = re.findall(r"^\| `(\S+)` \| (v\S+) \| `(\w{40})`", guide, re.MULTILINE)
    assert pinned == {(name, commit, version) for name, version, commit in rows}


def test_azd_finds_the_app_and_says_where_to_publish() -> None:
    azure = (ROOT / "azure.yaml").read_text()
    names = {"PUSHGRID_URL"}

    assert re.search(r"^services:\n  api:", azure, re.MULTILINE)
    assert "serviceName: 'api'" in template("main.bicep")
    assert "'azd-service-name': serviceName" in template("modules/app.bicep")
    assert set(re.findall(r"\$(?:env:)?([A-Z_]{4,})", azure)) == names
    for name in names:
        assert f"output {name} string" in template("main.bicep")


def test_the_hook_prints_the_publish_url() -> None:
    posix = (
        (ROOT / "azure.yaml").read_text().partition("    posix:")[2].partition("    windows:")[0]
    )
    script = posix.partition("run: |\n")[2]
    told = subprocess.run(
        ["/bin/sh", "-euc", script],
        env={"PATH": os.environ["PATH"], "PUSHGRID_URL": "https://func.example"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout

    assert "https://func.example/topics/TOPIC/api/events" in told
    assert "https://func.example/status/health" in told


@pytest.mark.parametrize(
    "path", sorted((ROOT / ".github/workflows").glob("*.yml")), ids=lambda path: path.name
)
def test_workflows_pin_what_they_use_and_hold_no_password(path: Path) -> None:
    text = path.read_text()
    used = re.findall(r"uses: (\S+)(.*)", text)

    assert used
    for action, comment in used:
        assert re.fullmatch(r"[\w.-]+/[\w.-]+@[0-9a-f]{40}", action), action
        assert re.fullmatch(r" # v\d+\.\d+\.\d+", comment), action
    assert "permissions:\n  contents: read\n" in text
    assert not re.search(r"client-secret|creds:|AZURE_CREDENTIALS|pull_request_target", text)


@pytest.mark.parametrize("path", sorted(INFRA.rglob("*.bicep")), ids=lambda path: path.name)
def test_names_of_parameters_that_sound_secret_are_marked(path: Path) -> None:
    """Azure's linter goes by names (secure-secrets-in-params), and is an error here."""
    for decorators, name in re.findall(
        r"((?:^@.+\n)*)^param (\w+) ", path.read_text(), re.MULTILINE
    ):
        if re.search(r"password|pwd|secret|accountkey|acctkey", name, re.IGNORECASE):
            assert "@secure()" in decorators or re.search(
                r"secret(permissions|version|ur[il]|name)", name, re.IGNORECASE
            ), name
