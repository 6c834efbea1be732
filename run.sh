#!/usr/bin/env bash
# Everything from nothing: ./run.sh installs what is needed into .venv, trains a small chatbot and talks to it.
# ./run.sh VERB … is `seq2seq-chat VERB …`, in the folder it is called from; ./run.sh --help shows the verbs.
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
cd -- "$repository"
config="configs/quickstart.json"

# The newest run in results/ that has this configuration and was trained to its end, if there is one.
finished_run() {
    "$environment/bin/python" - "$config" <<'PYTHON'
import sys

from seq2seq_chat.config import load_config
from seq2seq_chat.errors import UserError
from seq2seq_chat.runs import list_runs

wanted = load_config(sys.argv[1])
for run in reversed(list_runs()):
    try:
        if run.config == wanted and any(step >= wanted.training.steps for step, _ in run.checkpoints()):
            print(run.path)
            break
    except UserError:
        pass  # damaged, or of another version
PYTHON
}

run="$(finished_run)"
if [[ -n "$run" ]]; then
    say "$run is trained already; to train anew: ./run.sh train $config"
else
    say "training $config, about two minutes on two cores"
    status=0
    "$seq2seq_chat" train "$config" || status=$?
    if ((status != 0)); then
        if ((status > 128)); then say "in place of seq2seq-chat write ./run.sh; without arguments it begins anew"; fi
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
        IFS= read -r reply || break # the chat has failed and said why
        printf 'you: %s\nbot: %s\n' "$utterance" "$reply"
    done
fi
printf '\n%s\n' "Go on talking: ./run.sh chat latest"
printf '%s\n' "Train on conversations of your own: see README.md; everything else: ./run.sh --help"
