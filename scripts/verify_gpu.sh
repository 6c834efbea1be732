#!/usr/bin/env bash
# Verify this system on a machine with an NVIDIA GPU and its driver; see docs/gpu.md. Uses the current environment if it
# has TensorFlow, else installs it with CUDA into .venv. --cpu does a dry run without a GPU; --help lists the options.
set -euo pipefail

repository="$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)"
# shellcheck source=scripts/environment.sh
source "$repository/scripts/environment.sh"

export PYTHONPATH="$repository${PYTHONPATH:+:$PYTHONPATH}"
if is_python python "tensorflow, click, pydantic"; then
    python="$(command -v python)"
else
    prepare_environment cuda
    python="$environment/bin/python"
fi
exec "$python" "$repository/scripts/verify_gpu.py" "$@"
