"""A name that changes only in the code, or only in the templates, is a problem."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from shared.delivery.profiles import PROFILES
from shared.settings import from_environ
from tools.bicepcheck.check import check
from tools.bicepcheck.evaluation.evaluated_folder import EvaluatedFolder
from tools.bicepcheck.evaluation.scenarios import deployments
from tools.bicepcheck.evaluation.values import shown
from tools.bicepcheck.problems import ProblemReport
from tools.bicepcheck.reading.folder import Folder
from tools.bicepcheck.rules.roles import ROLES, _role_id

ROOT = Path(__file__).resolve().parents[2]

SETTINGS = "shared/settings/__init__.py"
#: On the side of the code; the corpus of bicepcheck has faults of the templates.
RENAMES = [
    ("setting in the code", SETTINGS, '"PUSHGRID_PROFILE"', '"PUSHGRID_EDITION"'),
    ("schedule in the code", "wake_function/function.json", "WAKE_SCHEDULE", "WAKING_SCHEDULE"),
    ("queue in the code", "shared/engine/ports/queues.py", '"waiting"', '"later"'),
    ("triggered queue in the code", "retry_function/function.json", '"retries"', '"again"'),
    ("poison queue in Bicep", "infra/modules/storage.bicep", "'retries-poison'", "'poison'"),
    ("table in the code", "shared/engine/ports/documents.py", '"topics"', '"topic"'),
    (
        "table of totals in the code",
        "shared/adapters/storage/metrics.py",
        '"metrictotals"',
        '"sums"',
    ),
    ("container in the code", "shared/adapters/storage/clients.py", '"payloads"', '"bodies"'),
    ("service in azure.yaml", "azure.yaml", "  api:", "  app:"),
    (
        "log line in the code",
        "shared/engine/timers/queue_watch.py",
        '"queue.depth"',
        '"queue.state"',
    ),
    ("connection of a trigger", "retry_function/function.json", "WebJobsStorage", "JobsStorage"),
    ("connection in the code", SETTINGS, '"AzureWebJobsStorage"', '"AzureStorage"'),
    ("parameter in the file", "infra/main.parameters.json", '"attemptLog"', '"attemptLogging"'),
]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of what both sides are."""
    for folder in (ROOT / "shared", ROOT / "infra", *ROOT.glob("*_function")):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(folder, tmp_path / folder.name, ignore=ignored)
    for name in ("azure.yaml", "host.json"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def test_the_copy_is_good(copy: Path) -> None:
    assert not check(copy / "infra").problems


@pytest.mark.parametrize(
    ("file", "old", "new"), [row[1:] for row in RENAMES], ids=[row[0] for row in RENAMES]
)
def test_one_side_alone_is_red(copy: Path, file: str, old: str, new: str) -> None:
    path = copy / file
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")
    assert check(copy / "infra").problems


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("resourceGroup(split(id, '/')[2], split(id, '/')[4])", "group", "reference"),
        ("    rbac\n    deadletters\n", "    rbac\n", "role"),
        (
            "identity.outputs.identity.principalId\n      storageAccountName: last",
            "identity.outputs.identity.clientId\n      storageAccountName: last",
            "role",
        ),
    ],
    ids=["in the app's resource group", "after the app", "to another id"],
)
def test_a_role_on_another_account_that_has_no_effect_is_red(
    copy: Path, old: str, new: str, code: str
) -> None:
    path = copy / "infra/main.bicep"
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1
    path.write_text(text.replace(old, new), encoding="utf-8")
    assert {one.code for one in check(copy / "infra").problems} == {code}


def test_other_accounts_for_dead_letters_get_a_role_and_are_named() -> None:
    folder = Folder(ROOT / "infra", ProblemReport())
    names = ["archive1", "archive2"]
    ids = [
        f"/subscriptions/s/resourceGroups/r/providers/Microsoft.Storage/storageAccounts/{name}"
        for name in names
    ]
    deployment = EvaluatedFolder(folder, {"deadletterAccountIds": f" {ids[0]}, {ids[1]},"})
    granted = [
        (one.scope.parent.name, ROLES[_role_id(one)][0])
        for one in deployment.of("Microsoft.Authorization/roleAssignments")
        if one.file.endswith("deadletters.bicep")
    ]
    settings = next(
        one.at("properties")
        for one in deployment.of("Microsoft.Web/sites/config")
        if one.name == "appsettings"
    )

    # It writes dead letters; into queues of users it puts, and there it reads nothing.
    roles = ("Storage Blob Data Contributor", "Storage Queue Data Message Sender")
    assert sorted(granted) == [(name, role) for name in names for role in roles]
    assert shown(settings["PUSHGRID_DEADLETTER_ACCOUNTS"]) == (
        "archive1=https://archive1.blob.…,archive2=https://archive2.blob.…"
    )


@pytest.mark.parametrize("schedule", ["0 * * * *", "0 60 * * * *", "0 0 0 * * x", "0 0 0 31 2 *"])
def test_a_schedule_that_no_timer_can_have_is_red(copy: Path, schedule: str) -> None:
    path = copy / "infra/modules/app.bicep"
    deployed = "PUSHGRID_WAKE_SCHEDULE: '0 * * * * *'"
    text = path.read_text(encoding="utf-8")
    assert deployed in text
    wrong = f"PUSHGRID_WAKE_SCHEDULE: '{schedule}'"
    path.write_text(text.replace(deployed, wrong), encoding="utf-8")
    problems = check(copy / "infra").problems
    assert [one.code for one in problems] == ["setting"]
    assert next(iter(problems)).message.startswith("PUSHGRID_WAKE_SCHEDULE: ")


def test_a_function_that_is_renamed_is_missed_by_the_alert(copy: Path) -> None:
    (copy / "deadletter_function").rename(copy / "housekeeping_function")
    assert {one.code for one in check(copy / "infra").problems} == {"query"}


def test_the_app_takes_the_settings_that_are_deployed() -> None:
    """As they come, with every switch turned, and with every choice; none stops the app."""
    folder = Folder(ROOT / "infra", ProblemReport())
    for deployment in deployments(folder):
        (settings,) = (
            one.at("properties")
            for one in deployment.of("Microsoft.Web/sites/config")
            if one.name == "appsettings"
        )
        known = {name: value for name, value in settings.items() if isinstance(value, str)}

        assert len(known) >= 10
        from_environ(known | {"AzureWebJobsStorage": "x"}, frozenset(PROFILES))
