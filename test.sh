#!/usr/bin/env bash
# Style, types and the quick tests. With arguments, only pytest with these arguments: ./test.sh -m slow
# (Paths in them are relative to the repository.)
set -euo pipefail

repository="$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)"
# shellcheck source=scripts/environment.sh
source "$repository/scripts/environment.sh"

prepare_environment dev
python="$environment/bin/python"
cd -- "$repository"

if (($# > 0)); then
    exec "$python" -m pytest "$@"
fi

# All three are run, so that one call shows everything that is wrong.
failed=()
"$python" -m ruff check || failed+=("ruff")
"$python" -m mypy || failed+=("mypy")
"$python" -m pytest --numprocesses auto --maxprocesses 4 --dist loadfile || failed+=("pytest")
if ((${#failed[@]} > 0)); then
    say "failed: ${failed[*]}"
    exit 1
fi
