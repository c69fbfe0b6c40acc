# Sourced by the other scripts, in the checkout's root: makes .venv, with pyframe in it, and stubs.

bin=.venv/bin
case "$OSTYPE" in msys* | cygwin*) bin=.venv/Scripts ;; esac # Git Bash, on Windows

say() { printf '%s\n' "$*" >&2; }

die() { say "$*"; exit 1; }

find_python() {
  local candidate seen=""
  for candidate in "${PYTHON:-}" python3 python3.14 python3.13 python3.12 python3.11 python; do
    if [ -z "$candidate" ]; then continue; fi
    if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      printf '%s\n' "$candidate"
      return
    fi
    seen="$seen$("$candidate" -c 'import platform; print(" " + platform.python_version())' 2>/dev/null || true)"
  done
  die "pyframe needs Python 3.11 or newer; found${seen:- none}. Install one, or name it: PYTHON=/path/to/python3"
}

# install_pyframe [EXTRAS]: makes .venv and installs this checkout there, editable. Nothing is done
# again until pyproject.toml changes or the checkout moves.
install_pyframe() {
  local extras="${1:-}" python want
  want="$(pwd && cat pyproject.toml)"
  if ! $bin/python -c 'import pip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    python="$(find_python)"
    if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
      die "$python cannot make virtual environments; on Debian: apt-get install" \
        "$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')"
    fi
    say "Making a virtual environment in .venv with $("$python" --version)"
    "$python" -m venv --clear .venv
  fi
  if [ "$(cat ".venv/pyframe$extras.stamp" 2>/dev/null)" != "$want" ]; then
    say "Installing pyframe$extras and what it needs in .venv (once)"
    $bin/python -m pip install --quiet --disable-pip-version-check --editable ".$extras"
    printf '%s\n' "$want" | tee .venv/pyframe.stamp >".venv/pyframe$extras.stamp"
  fi
  make_stubs
}

# What editors and type checkers read of ops. Nothing is done until a source is newer.
make_stubs() {
  local made=pyframe/_stubs/__init__.pyi
  if [ scripts/make_stubs -nt $made ] || [ "$(find pyframe -name '*.py' -newer $made)" ]; then
    $bin/python scripts/make_stubs >/dev/null
  fi
}
