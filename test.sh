#!/usr/bin/env bash
# Check style and types and run the quick tests. With arguments, only run pytest with them: ./test.sh -m slow
# Paths in the arguments are relative to the repository.
set -euo pipefail

repository="$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)"
# shellcheck source=scripts/environment.sh
source "$repository/scripts/environment.sh"

# Spark takes as much space as everything else of the tests together.
extras="dev"
if [[ " $* " == *slow* || " $* " == *nightly* ]]; then extras="dev,slow"; fi
if [[ " $* " == *nightly* ]]; then extras="dev,slow,docs"; fi
prepare_environment "$extras"
python="$environment/bin/python"
cd -- "$repository"

if (($# > 0)); then
    exec "$python" -m pytest "$@"
fi

# Run all four even if one fails, to show every problem at once. mypy uses one core: pytest starts next to it.
failed=()
"$python" -m ruff check || failed+=("ruff check")
"$python" -m ruff format --check || failed+=("ruff format")
"$python" -m mypy &
mypy=$!
"$python" -m pytest --numprocesses auto --maxprocesses 4 --dist worksteal || failed+=("pytest")
wait "$mypy" || failed+=("mypy")
if ((${#failed[@]} > 0)); then
    say "failed: ${failed[*]}"
    exit 1
fi
