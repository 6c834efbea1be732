#!/usr/bin/env bash
# Install everything into .venv, train a small chatbot, and talk to it.
# ./run.sh VERB … runs `seq2seq-chat VERB …` in the current directory; ./run.sh --help lists the verbs.
set -euo pipefail

repository="$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)"
# shellcheck source=scripts/environment.sh
source "$repository/scripts/environment.sh"

prepare_environment
seq2seq_chat="$environment/bin/seq2seq-chat"

if (($# > 0)); then
    exec "$seq2seq_chat" "$@"
fi

# The demonstration. Paths in a configuration are relative to the working directory.
run_sh="./run.sh" # as the user would call it
if [[ ! . -ef "$repository" ]]; then printf -v run_sh 'cd %q && ./run.sh' "$repository"; fi
cd -- "$repository"
config="configs/quickstart.json"

# The newest finished run of this configuration in results/, if any.
finished_run() {
    "$environment/bin/python" - "$config" <<'PYTHON'
import sys

from seq2seq_chat.config import load_config
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.runs.find import list_runs

config = load_config(sys.argv[1])
for run in reversed(list_runs()):
    try:
        if run.config == config and any(step >= config.training.steps for step, _ in run.checkpoints()):
            print(run.path)
            break
    except UserError:
        pass  # damaged, or from another version
PYTHON
}

run="$(finished_run)"
if [[ -n "$run" ]]; then
    say "$run is already trained; to train another one: $run_sh train $config"
else
    say "training $config, about two and a half minutes on two cores"
    status=0
    "$seq2seq_chat" train "$config" || status=$?
    if ((status != 0)); then
        if ((status > 128)); then say "in this command, replace seq2seq-chat with: $run_sh; without arguments it trains from scratch"; fi
        exit "$status"
    fi
    run="$(finished_run)"
fi

if [[ -t 0 ]]; then
    "$seq2seq_chat" chat "$run"
else
    utterances=(
        "hello !"
        "how are you ?"
        "who are you ?"
        "what is your favourite film ?"
        "tell me a joke ."
        "do you like music ?"
        "what should i watch tonight ?"
        "goodbye !"
    )
    printf '\n'
    printf '%s\n' "${utterances[@]}" | "$seq2seq_chat" chat "$run" | for utterance in "${utterances[@]}"; do
        IFS= read -r reply || break # the chat failed and printed why
        printf 'you: %s\nbot: %s\n' "$utterance" "$reply"
    done
fi
printf '\n%s\n' "Keep talking: $run_sh chat $run"
printf '%s\n' "Train on your own conversations: see README.md. All commands: $run_sh --help"
