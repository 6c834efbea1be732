# The Python environment in .venv, for run.sh and test.sh. To be sourced; needs $repository, the absolute path of this
# repository. `prepare_environment` makes what is missing, and takes no time where nothing is. It relies on `set -e`.
# shellcheck shell=bash

environment="$repository/.venv"

# What is installed follows from these; where they changed, or the repository was moved, it is installed again.
fingerprint() {
    { printf '%s\n' "$repository" && cat "$repository/setup.py" "$repository/constraints.txt"; } | cksum
}

# prepare_environment [EXTRA]: .venv has the package, with the optional requirements that setup.py calls EXTRA.
prepare_environment() {
    local extra="${1:-}" wanted
    wanted="$(fingerprint)"
    if is_installed "$extra" "$wanted"; then return; fi
    # One at a time; a second caller waits and then finds the work done. The lock ends with the subshell.
    (
        if command -v flock >/dev/null && ! flock -n 9; then
            say "another process is installing into .venv; waiting for it"
            flock 9
        fi
        if ! is_installed "$extra" "$wanted"; then
            install_environment "$extra" "$wanted"
        fi
    ) 9>>"$repository/.venv.lock"
}

is_installed() {
    local stamp="$environment/installed${1:+-$1}"
    [[ -x "$environment/bin/python" && -x "$environment/bin/seq2seq-chat" && -f "$stamp" ]] &&
        [[ "$(<"$stamp")" == "$2" ]]
}

install_environment() {
    local extra="$1" wanted="$2" unfinished="$environment/unfinished" stamp
    # What an interrupted installation left, or an environment whose Python is gone or another, is no ground to build on.
    if [[ -e "$unfinished" ]] || ! is_python "$environment/bin/python" pip; then
        make_environment
    fi
    : >"$unfinished"
    say "installing TensorFlow and the rest into .venv: about 500 MB, a few minutes, only once"
    SECONDS=0
    if ! "$environment/bin/python" -m pip install -qq --disable-pip-version-check \
        -c "$repository/constraints.txt" -e "$repository${extra:+[$extra]}" </dev/null; then
        say "the installation failed; the next call begins it anew"
        return 1
    fi
    for stamp in installed "installed${extra:+-$extra}"; do
        printf '%s\n' "$wanted" >"$environment/$stamp"
    done
    rm -f "$unfinished"
    say "installed in $SECONDS s"
}

make_environment() {
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
        say "TensorFlow 2.15 needs Python 3.10 or 3.11, and there is none that can make environments (venv), nor uv"
        say "install one of: python3.11-venv (apt), python@3.11 (brew), 3.11 (pyenv), uv (docs.astral.sh/uv)"
        return 2
    fi
}

# The first Python that will do, on standard output. Debian's has no ensurepip where python3.11-venv is not installed.
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

# is_python COMMAND MODULES: it runs, is version 3.10 or 3.11, and has the modules.
is_python() {
    command -v "$1" >/dev/null &&
        "$1" -c "import sys, $2; sys.exit(sys.version_info[:2] not in ((3, 10), (3, 11)))" >/dev/null 2>&1 </dev/null
}

say() {
    printf '%s: %s\n' "${0##*/}" "$1" >&2
}
