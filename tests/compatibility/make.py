"""Put what the present version writes on the shelf: ``python -m tests.compatibility.make VERSION [NAME]...``.

It runs in the repository, trains tiny models on the processor, exports them, and stores what they reply in
data/VERSION/NAME/, which must not exist. A release adds its folder; an earlier version's is never made again.
"""

import itertools
import json
import os
import random
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.compatibility.readers import read_page, read_saved_model
from tests.conftest import MARKER, run_command

DATA = Path(__file__).with_name("data")
MARGIN = 0.003  # least difference of two scores of a list, in nats, so that no rounding reorders it
FIGURES = (
    *("loss", "loss_bits", "perplexity", "tokens", "samples", "word_accuracy", "token_accuracy"),
    *("bleu", "chrf", "distinct_1", "distinct_2", "mean_length"),
)


class Recipe(NamedTuple):
    """How an artefact is made."""

    write_corpora: Callable[[random.Random], str]
    """Writes train and validation corpora to the working directory, and returns the ending of their names."""
    texts: Sequence[str]
    settings: dict[str, dict[str, Any]]
    stored: Sequence[str] = ()
    """Exports that are kept: onnx, onnx_int8, saved_model, page."""
    more_steps: int = 0
    """Further training steps after the stored run; their last checkpoint is stored, too."""


def write_conversations(rng: random.Random) -> str:
    """Questions and answers; the answer depends on the subject, verb and object of the question."""
    for name, count in (("train", 40), ("validation", 5)):
        lines = []
        for _ in range(count):
            for _ in range(2):
                subject, verb, thing = rng.choice(("i", "you", "we")), rng.choice(("see", "like")), rng.choice(THINGS)
                lines += [f"{subject} {verb} the {thing} ?", f"{ANSWERS[subject]} , {verb} {thing} !"]
            lines.append(MARKER)
        Path(f"{name}.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return "txt"


def write_translations(rng: random.Random) -> str:
    """Numbers in English and in French."""
    for name, count in (("train", 120), ("validation", 12)):
        rows = [rng.choices(list(NUMBERS), k=rng.randint(2, 4)) for _ in range(count)]
        text = "".join(f"{' '.join(row)}!\t{' '.join(NUMBERS[word] for word in row)}!\n" for row in rows)
        Path(f"{name}.tsv").write_text(text, encoding="utf-8")
    return "tsv"


def write_text(rng: random.Random) -> str:
    """Lines about two animals."""
    for name, count in (("train", 60), ("validation", 10)):
        lines = [f"the {rng.choice(('cat', 'dog'))} sat on the {rng.choice(('mat', 'log'))}.\n" for _ in range(count)]
        Path(f"{name}.txt").write_text("".join(lines), encoding="utf-8")
    return "txt"


THINGS = ("tree", "house", "song")
ANSWERS = {"i": "yes", "you": "no", "we": "never"}
NUMBERS = {"one": "un", "two": "deux", "three": "trois", "four": "quatre"}
QUESTIONS = ("i see the tree ?", "we like the song ?", "hello you", "")
RECIPES = {
    "conversation": Recipe(
        write_conversations,
        QUESTIONS,
        {"data": {"buckets": "auto", "max_buckets": 2}, "training": {"sampled_softmax": 12}},
        ("onnx", "onnx_int8", "page"),
        more_steps=6,
    ),
    "translation": Recipe(
        write_translations,
        ("one two three!", "four four one", "five", ""),
        {"data": {"tokenizer": "unicode"}, "model": {"attention_query": "previous", "output": "maxout", "cell": "gru"}},
        more_steps=6,
    ),
    "language_model": Recipe(
        write_text,
        ("the cat ", "the log"),
        {"data": {"tokenizer": "character"}, "model": {"hidden_size": 10}, "training": {"bptt_forward": 12}},
        ("onnx",),
        more_steps=6,
    ),
    "short": Recipe(  # of what makes SavedModels large: steps, each with a copy of the graph, and tokenizers
        write_conversations,
        ("i see the", "we like", ""),
        {
            "data": {"tokenizer": "unicode"},
            "model": {"cell": "rnn", "attention": "none", "encoder_steps": 3, "decoder_steps": 3, "hidden_size": 8},
        },
        ("saved_model",),
    ),
    "subword": Recipe(write_conversations, QUESTIONS, {"data": {"tokenizer": "subword", "vocabulary_size": 300}}),
    "context": Recipe(write_conversations, QUESTIONS, {"data": {"context_turns": 2}}),
    "dynamic": Recipe(write_conversations, QUESTIONS, {"model": {"unrolling": "dynamic"}}),
    "gru_layers": Recipe(
        write_conversations,
        QUESTIONS,
        {"model": {"cell": "gru", "layers": 2, "bidirectional": True, "attention": "general", "input_feeding": False}},
    ),
}
"""Name of an artefact → how it is made."""
TASKS = {"translation": "translation", "language_model": "language_model"}


class CloseScoresError(Exception):
    """Rounding could reorder hypotheses."""


def settings_of(name: str, ending: str, seed: int) -> dict[str, Any]:
    """The configuration of an artefact."""
    settings: dict[str, Any] = {
        "name": name,
        "seed": seed,
        "task": TASKS.get(name, "conversation"),
        "data": {"train": f"train.{ending}", "validation": f"validation.{ending}"},
        "model": {"hidden_size": 6, "embedding_size": 5, "projection_size": None, "dropout": 0.1},
        "training": {
            **{"batch_size": 8, "steps": 200, "optimizer": "adam", "learning_rate": 0.03, "learning_rate_decay": 0.1},
            **{"learning_rate_schedule": "exponential", "learning_rate_decay_steps": 200, "gradient_clipping": 1.0},
            **{"log_every": 50, "validate_every": 100, "sample_replies": 1, "validation_limit": None},
            **{"checkpoint_every": 200, "snapshot_every": 200, "micro_batches": 2},
        },
        "decoding": {"beam_width": 4},
    }
    if name == "language_model":
        del settings["training"]["micro_batches"]
    else:
        settings["model"] |= {"encoder_steps": 9, "decoder_steps": 8}
    for section, changes in RECIPES[name].settings.items():
        settings[section] |= changes
    return settings


def commands_of(name: str, texts: Sequence[str]) -> list[dict[str, Any]]:
    """Commands without their output; {model} is a run or an exported model."""
    if name == "language_model":
        options = ["--length", "60", "--seed"]
        return [
            {"arguments": ["generate", "{model}", "--prompt", texts[0], *options, "3"], "stdin": ""},
            {"arguments": ["generate", "{model}", *options, "4", "--temperature", "0.7", "--top-k", "3"], "stdin": ""},
        ]
    chat, stdin = ["chat", "{model}"], "".join(f"{text}\n" for text in texts)
    sample = ["--set", "decoding.method=sample", "--set", "decoding.seed=5"]
    if name == "dynamic":  # whose own search is for greedy and beam
        sample = ["--set", "decoding.unrolling=static"]
    return [
        {"arguments": [*chat, "--tokens", "--n-best", "3"], "stdin": stdin},
        {"arguments": chat, "stdin": stdin},
        {"arguments": [*chat, *sample], "stdin": stdin},
    ]


def call(*arguments: object, stdin: str = "") -> str:
    """The output of a command."""
    result = run_command(*arguments, stdin=stdin.encode())
    assert result.status == 0, (arguments, result)
    return result.out


def make(name: str, folder: Path, seed: int) -> None:
    """Make an artefact in a folder, which must not exist; raises CloseScoresError if another seed is needed."""
    recipe = RECIPES[name]
    folder.mkdir()
    os.chdir(folder)
    settings = settings_of(name, recipe.write_corpora(random.Random(1)), seed)
    Path("config.json").write_text(json.dumps(settings), encoding="utf-8")
    trained = call("train", "config.json", "--results", "results").splitlines()[-1]
    Path(trained).rename("run")
    Path("results").rmdir()
    Path("config.json").unlink()
    expected: dict[str, Any] = processor() | {"commands": commands_of(name, recipe.texts)}
    for command in expected["commands"]:
        command["out"] = call(*(part.format(model="run") for part in command["arguments"]), stdin=command["stdin"])
        for block in command["out"].split("\n\n") if "--tokens" in command["arguments"] else ():
            scores = [float(line.split("\t")[0]) for line in block.splitlines() if line]
            gaps = [one - other for one, other in itertools.pairwise(scores)]
            if min(gaps, default=1) < MARGIN:
                raise CloseScoresError
    with tempfile.TemporaryDirectory() as name_of_temporary:
        temporary = Path(name_of_temporary)
        shutil.copytree("run", temporary / "evaluated")
        call("evaluate", temporary / "evaluated", "--json", temporary / "figures.json")
        figures = json.loads((temporary / "figures.json").read_text(encoding="utf-8"))
        expected["evaluation"] = {figure: figures[figure] for figure in FIGURES if figure in figures}
        if recipe.stored:
            expected["texts"] = recipe.texts
            call("export", "run", "--output", temporary / "saved_model")
            expected["saved_model"] = read_saved_model(temporary / "saved_model", recipe.texts)
        for export in recipe.stored:
            make_export(export, temporary / export)
            shutil.copytree(temporary / export, export)
        if "page" in recipe.stored:
            expected["page"] = read_page(Path("page", "index.html").resolve(), recipe.texts)
        if recipe.more_steps:
            steps = settings["training"]["steps"] + recipe.more_steps
            expected["resume"] = {"arguments": ["--set", f"training.steps={steps}"], "step": steps}
            shutil.copytree("run", temporary / "run")
            call("train", "--resume", temporary / "run", *expected["resume"]["arguments"])
            shutil.copy(temporary / "run" / "checkpoints" / f"{steps:010d}.npz", "final.npz")
            lines = (temporary / "run" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
            expected["resume"]["metrics"] = [[line["kind"], line["step"]] for line in map(json.loads, lines)]
    Path("expected.json").write_text(json.dumps(expected, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    for cache in folder.glob("*.cache"):
        shutil.rmtree(cache)


def make_export(export: str, folder: Path) -> None:
    """Export the run of the working directory."""
    options = {
        "onnx": ["--format", "onnx"],
        "onnx_int8": ["--format", "onnx", "--quantize", "int8"],
        "page": ["--format", "html"],
    }
    if not folder.exists():
        call("export", "run", *options[export], "--output", folder)


def processor() -> dict[str, Any]:
    """The processor's name and vector extensions, which decide how results are rounded."""
    lines = dict(re.findall(r"^(model name|flags)\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE))
    return {"processor": lines["model name"], "vector_extensions": vector_extensions(lines["flags"])}


def vector_extensions(flags: str) -> list[str]:
    """The vector extensions among a processor's flags, sorted."""
    return sorted(flag for flag in flags.split() if re.match("avx|fma$", flag))


def main() -> None:
    """Make the shelf of the version that the command line names."""
    shelf = DATA / sys.argv[1]
    shelf.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[2:] or RECIPES:
        for seed in range(3, 13):
            try:
                make(name, shelf / name, seed)
                break
            except CloseScoresError:
                shutil.rmtree(shelf / name)


if __name__ == "__main__":
    main()
