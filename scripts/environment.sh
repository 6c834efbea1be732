# Sourced by run.sh and test.sh: manages the Python environment in .venv. Needs $repository, the absolute path of this
# repository, and `set -eo pipefail`. `prepare_environment` installs what is missing, if anything.
# shellcheck shell=bash

environment="$repository/.venv"

# If any of these changes, or the repository moves, everything is installed again.
fingerprint() {
    { printf '%s\n' "$repository" && cat "$repository/setup.py" "$repository/constraints.txt"; } | cksum
}

# prepare_environment [EXTRAS]: install the package into .venv, with optional requirements of setup.py (dev,slow).
prepare_environment() {
    local extras="${1:-}" fingerprint
    fingerprint="$(fingerprint)"
    if is_installed "$extras" "$fingerprint"; then return; fi
    # One process at a time; a second one waits and then finds everything installed. The subshell holds the lock.
    (
        if command -v flock >/dev/null && ! flock -n 9; then
            say "another process is installing into .venv; waiting for it"
            flock 9
        fi
        if ! is_installed "$extras" "$fingerprint"; then
            install_environment "$extras" "$fingerprint"
        fi
    ) 9>>"$repository/.venv.lock"
}

# is_installed EXTRAS FINGERPRINT
is_installed() {
    local stamp
    [[ -x "$environment/bin/python" && -x "$environment/bin/seq2seq-chat" ]] || return 1
    for stamp in $(stamps "$1"); do
        [[ -f "$environment/$stamp" && "$(<"$environment/$stamp")" == "$2" ]] || return 1
    done
}

# The names of the files that hold the fingerprint of what is installed: one for the package, one for each of the extras.
stamps() {
    printf '%s\n' installed ${1:+installed-${1//,/ installed-}}
}

install_environment() {
    local extras="$1" fingerprint="$2" unfinished="$environment/unfinished" stamp what
    # Start from scratch after an interrupted installation, or if the environment's Python is missing or has another version.
    if [[ -e "$unfinished" ]] || ! is_python "$environment/bin/python" pip; then
        create_environment
    fi
    what="TensorFlow and other packages into .venv (once; 780 MB, 2.5 GB on the disk, a few minutes)"
    if [[ -n "$extras" ]] && is_installed "" "$fingerprint"; then what="what the tests need into .venv (once)"; fi
    : >"$unfinished"
    say "installing $what"
    SECONDS=0
    if ! "$environment/bin/python" -m pip install --disable-pip-version-check --progress-bar off \
        -c "$repository/constraints.txt" -e "$repository${extras:+[$extras]}" </dev/null | show_progress; then
        say "installation failed; run the command again to retry"
        return 1
    fi
    # Headers for compiling custom operations, and what compiles TensorFlow itself: 280 MB that nothing here needs.
    rm -rf "$environment"/lib/python3*/site-packages/{tensorflow/include,clang/native}
    for stamp in $(stamps "$extras"); do
        printf '%s\n' "$fingerprint" >"$environment/$stamp"
    done
    rm -f "$unfinished"
    say "installed in $SECONDS s"
}

# Reads the output of pip; shows packages of 10 MB and more as they are downloaded, and when the rest begins.
show_progress() {
    local line large='^ *Downloading ([^ ]*/)?([^ /-]+)-[^ ]* \(([0-9]{2,}\.[0-9] MB)\)$'
    while IFS= read -r line; do
        if [[ "$line" =~ $large ]]; then say "downloading ${BASH_REMATCH[2]}, ${BASH_REMATCH[3]}"; fi
        if [[ "$line" == "Installing collected packages:"* ]]; then say "unpacking the packages"; fi
    done
}

create_environment() {
    local python
    if python="$(find_python)"; then
        rm -rf "$environment"
        mkdir "$environment"
        : >"$environment/unfinished"
        "$python" -m venv "$environment"
    elif command -v uv >/dev/null; then
        rm -rf "$environment"
        uv venv --quiet --python 3.11 --seed "$environment"
    else
        say "TensorFlow 2.15 needs Python 3.10 or 3.11 with venv, and neither that nor uv was found"
        say "install one of: python3.11-venv (apt), python@3.11 (brew), 3.11 (pyenv), uv (docs.astral.sh/uv)"
        return 2
    fi
}

# Print the first suitable Python. Debian's lacks ensurepip unless python3.11-venv is installed.
find_python() {
    local candidate pyenv="${PYENV_ROOT:-${HOME:-}/.pyenv}/versions"
    for candidate in python3.11 python3.10 python3 python "$pyenv"/3.11.*/bin/python "$pyenv"/3.10.*/bin/python; do
        if is_python "$candidate" "venv, ensurepip"; then
            printf '%s\n' "$candidate"
            return
        fi
    done
    return 1
}

# is_python COMMAND MODULES: succeeds if COMMAND is a Python 3.10 or 3.11 with the modules.
is_python() {
    command -v "$1" >/dev/null &&
        "$1" -c "import sys, $2; sys.exit(sys.version_info[:2] not in ((3, 10), (3, 11)))" >/dev/null 2>&1 </dev/null
}

say() {
    printf '%s: %s\n' "${0##*/}" "$1" >&2
}
