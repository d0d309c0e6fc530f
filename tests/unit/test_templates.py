"""
The templates' settings, sizes and choices are what the code and its host are made for.

`make infra` checks everything else: the language, and the names that both sides know.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from shared import settings
from shared.adapters.storage import clients
from shared.arm.arm_json import MAX_BODY
from shared.arm.dead_letter_codec import _OWN_CONTAINER
from shared.delivery.profiles import PROFILES
from shared.engine.delivering.deployment_terms import DeploymentTerms
from shared.events.data_plane import CUSTOM, NAMESPACE
from testbed.host_settings import LOCAL
from tests.builders import a_topic

ROOT = Path(__file__).parents[2]
INFRA = ROOT / "infra"
#: What the host and its Python worker read (Functions' app settings reference).
OF_THE_HOST = {
    "APPLICATIONINSIGHTS_AUTHENTICATION_STRING",
    "APPLICATIONINSIGHTS_CONNECTION_STRING",
    "FUNCTIONS_ENABLE_DRAIN_ON_APP_STOPPING",
    "FUNCTIONS_REQUEST_BODY_SIZE_LIMIT",
    "PYTHON_THREADPOOL_THREAD_COUNT",
}
#: Members of the host's storage connection that have to be there with a user-assigned identity.
STORAGE = {"blobServiceUri", "queueServiceUri", "tableServiceUri", "credential", "clientId"}
#: Of the code's settings: local stories, tuning, and other clouds.
NOT_WRITTEN = {
    "AzureWebJobsStorage",  # written as a section
    "PUSHGRID_AZ_LOGIN",
    "PUSHGRID_CACHE_SECONDS",
    "PUSHGRID_ENDPOINT_LIMIT",
    "PUSHGRID_CLIENT_KEY",  # stands beside the certificate in the vault's secret
    "PUSHGRID_CLIENT_KEY_PASSWORD",
    "PUSHGRID_CONSOLE",
    "PUSHGRID_ENTRA_ISSUER",
    "PUSHGRID_ENTRA_JWKS_URL",
    "PUSHGRID_LOCAL_SHORTCUTS",
    "PUSHGRID_LOG_FORMAT",
    "PUSHGRID_NAME_SERVERS",
    "PUSHGRID_TIME_SCALE",
    "PUSHGRID_WEBHOOK_AUTHORITY",
}


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


def test_the_containers_are_the_codes_and_one_that_dead_letters_may_go_to() -> None:
    made = listed(template("modules/storage.bicep"), "containerNames")
    ours = [name for name in made if _OWN_CONTAINER.fullmatch(name)]

    assert ours == [clients.PAYLOADS, clients.POISON, "app-package"]
    assert [name for name in made if name not in ours] == ["deadletters"]


def test_every_setting_of_the_code_is_written_or_left_out_on_purpose() -> None:
    names = set(written_settings())
    sections = {f"AzureWebJobsStorage__{member}" for member in STORAGE}

    assert sections <= names
    assert names - sections - OF_THE_HOST == set(settings.NAMES.values()) - NOT_WRITTEN
    assert names - sections >= OF_THE_HOST


def test_bodies_are_limited_alike_wherever_the_app_runs_and_none_that_it_takes_is_cut() -> None:
    name = "FUNCTIONS_REQUEST_BODY_SIZE_LIMIT"
    example = json.loads((ROOT / "local.settings.example.json").read_text())["Values"]
    image = re.search(rf"{name}=(\d+)", (ROOT / "docker/production.Dockerfile").read_text())
    places = [written_settings()[name].strip("'"), example[name], LOCAL[name], image and image[1]]

    assert places == ["4194304"] * 4
    taken = (CUSTOM.max_request_size, NAMESPACE.max_request_size, MAX_BODY)
    assert max(taken) * 2 < int(places[0])  # what is larger is refused by the app, with its 413


def test_each_setting_is_written_from_the_parameter_of_its_name() -> None:
    others = {
        "adminKey2": "secondAdminKeyName",
        "caBundle": "caBundleName",
        "clientCertificate": "clientCertificateName",
        "readerKey": "readerKeyName",
        "webhookCertificate": "webhookCertificateName",
        "webhookClientSecret": "webhookSecretName",
    }
    members = set()
    for name, value in written_settings().items():
        for member in set(re.findall(r"settings\.(\w+)", value)):
            first, *words = name.removeprefix("PUSHGRID_").lower().split("_")
            camel = first + "".join(map(str.capitalize, words))
            assert member == others.get(camel, camel)
            if "'true'" in value:
                assert value == f"settings.{member} ? 'true' : 'false'"
            members.add(member)

    declared = template("modules/types.bicep").partition("type settingsType = {")[2]
    assert members == set(re.findall(r"^  (\w+):", declared.partition("\n}")[0], re.MULTILINE))


def test_the_timers_run_as_often_as_guide_and_model_of_cost_say() -> None:
    names = written_settings()

    assert names["PUSHGRID_WAKE_SCHEDULE"] == "'0 * * * * *'"
    assert names["PUSHGRID_DEADLETTER_SCHEDULE"] == "settings.deadletterSchedule"
    assert "param deadletterSchedule string = '0 * * * * *'" in template("main.bicep")


def test_the_python_is_the_one_that_is_tested_before_each_deployment() -> None:
    deployed = re.search(r"name: 'python'\n +version: '(.+)'", template("modules/app.bicep"))
    named = r"PYTHON=python([\d.]+)|Flex Consumption\W+Python ([\d.]+)\)"

    assert deployed
    for page in (".github/workflows/deploy.yml", "docs/deploy.md"):
        found = re.search(named, (ROOT / page).read_text())
        assert found
        assert deployed[1] in found.groups(), page


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
