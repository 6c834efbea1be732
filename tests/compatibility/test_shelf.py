"""The compatibility shelf: what earlier versions wrote is read, replies, is evaluated and resumes as it did then.

data/VERSION/NAME/ has a run with its corpora, its exports if there are any (onnx/, onnx_int8/, saved_model/, page/),
and expected.json: what that version printed, and the processor that it ran on. If the run is resumed, final.npz is the
last checkpoint of the training that continued it. make.py adds a version. Nothing here depends on the package's
modules: artefacts are used through the command line, TensorFlow and Node.js.
"""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.compatibility.readers import read_page, read_saved_model

DATA = Path(__file__).with_name("data")
ARTEFACTS = sorted(path.parent for path in DATA.glob("*/*/expected.json"))
QUICK = {"0.1/conversation", "0.2.0/language_model", "0.2.0/translation"}
"""Runs that the quick suite loads, too: one of each task."""
SCORE, QUANTIZED_SCORE, LOSS = 1e-3, 0.1, 1e-5
"""Tolerances: of scores in nats, of scores with weights of 8 bits, and of losses, relative."""
MOST_BYTES = 3_000_000  # half a megabyte a release
Cli = Callable[..., Any]

pytestmark = pytest.mark.usefixtures("unoptimized_graphs")


def name_of(artefact: Path) -> str:
    return artefact.relative_to(DATA).as_posix()


def expected_of(artefact: Path) -> dict[str, Any]:
    expected: dict[str, Any] = json.loads((artefact / "expected.json").read_text(encoding="utf-8"))
    return expected


def having(*parts: str, quick: bool | None = None) -> list[Any]:
    """Parameters: the artefacts, each with each of these files or folders that it has; slow unless all are quick.

    Args:
        quick: Whether these tests are quick; None: the runs in QUICK are.
    """
    return [
        pytest.param(
            artefact,
            part,
            id=f"{name_of(artefact)}/{part}",
            marks=[] if (quick if quick is not None else name_of(artefact) in QUICK) else [pytest.mark.slow],
        )
        for artefact in ARTEFACTS
        for part in parts
        if (artefact / part).exists()
    ]


@pytest.fixture
def work(artefact: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory: a copy of the artefact, whose corpora are relative to it."""
    folder = tmp_path / "work"
    shutil.copytree(artefact, folder)
    monkeypatch.chdir(folder)
    return folder


USES_TENSORFLOW = "using TensorFlow, as ONNX Runtime does not support model.unrolling dynamic\n"


def output(result: Any) -> str:
    """What a command printed; it printed no warning, but perhaps why it does not use ONNX Runtime."""
    assert (result.status, result.err.removeprefix(USES_TENSORFLOW)) == (0, ""), result
    return str(result.out)


def compare_output(found: str, expected: str, tolerance: float, same_text: bool = True) -> None:
    """Compare the lines of a command, some of which begin with a score and a tab."""
    lines, expected_lines = found.split("\n"), expected.split("\n")
    assert len(lines) == len(expected_lines), found
    for line, expected_line in zip(lines, expected_lines, strict=True):
        (score, tab, text), (expected_score, expected_tab, expected_text) = (
            one.rpartition("\t") if "\t" not in one else one.partition("\t") for one in (line, expected_line)
        )
        assert tab == expected_tab
        assert not same_text or text == expected_text, found
        assert float(score or 0) == pytest.approx(float(expected_score or 0), abs=tolerance), found


def compare_values(found: Any, expected: Any, where: str = "") -> None:
    """Compare nested lists and dictionaries, with a tolerance for their numbers."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys(), where
        for key, value in expected.items():
            compare_values(found[key], value, f"{where}.{key}")
    elif isinstance(expected, list):
        assert len(found) == len(expected), where
        for index, (one, other) in enumerate(zip(found, expected, strict=True)):
            compare_values(one, other, f"{where}[{index}]")
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, abs=SCORE), where
    else:
        assert found == expected, where


def compare_replies(cli: Cli, model: str, expected: dict[str, Any]) -> None:
    """Compare what `chat` or `generate` prints; quantized weights only keep the scores of the best hypotheses."""
    quantized = "int8" in model
    for command in expected["commands"]:
        if quantized and "--n-best" not in command["arguments"]:
            continue
        found = cli(*(part.format(model=model) for part in command["arguments"]), stdin=command["stdin"].encode())
        tolerance = QUANTIZED_SCORE if quantized else SCORE
        compare_output(output(found), command["out"], tolerance, same_text=not quantized)


@pytest.mark.parametrize(("artefact", "part"), [*having("run"), *having("onnx", "onnx_int8", quick=True)])
def test_replies_and_scores(cli: Cli, artefact: Path, part: str, work: Path) -> None:
    """Greedy, from beam search with scores, and sampled."""
    compare_replies(cli, part, expected_of(artefact))


@pytest.mark.parametrize(("artefact", "part"), [*having("run"), *having("onnx", quick=False)])
def test_evaluation(cli: Cli, artefact: Path, part: str, work: Path) -> None:
    output(cli("evaluate", part, "--json", "figures.json"))
    figures = json.loads(Path("figures.json").read_text(encoding="utf-8"))
    for name, value in expected_of(artefact)["evaluation"].items():
        assert figures[name] == pytest.approx(value, rel=LOSS), name


@pytest.mark.slow
@pytest.mark.parametrize(("artefact", "part"), having("saved_model"))
def test_saved_model_replies(artefact: Path, part: str) -> None:
    expected = expected_of(artefact)
    compare_values(read_saved_model(artefact / part, expected["texts"]), expected["saved_model"])


@pytest.mark.parametrize(("artefact", "part"), having("page/index.html", quick=True))
def test_page_replies(artefact: Path, part: str) -> None:
    expected = expected_of(artefact)
    compare_values(read_page(artefact / part, expected["texts"]), expected["page"])


@pytest.mark.slow
@pytest.mark.parametrize(("artefact", "part"), having("run"))
def test_exports_of_the_present_version(cli: Cli, artefact: Path, part: str, work: Path) -> None:
    """They reply and score as the run did."""
    expected = expected_of(artefact)
    if "saved_model" in expected:
        assert cli("export", part, "--output", "new_saved_model").status == 0
        compare_values(read_saved_model(work / "new_saved_model", expected["texts"]), expected["saved_model"])
    assert cli("export", part, "--format", "onnx", "--output", "new_onnx").status == 0
    compare_replies(cli, "new_onnx", expected)


@pytest.mark.slow
@pytest.mark.parametrize(("artefact", "part"), having("final.npz"))
def test_resume_with_the_same_weights(cli: Cli, artefact: Path, part: str, work: Path) -> None:
    """Up to rounding, and with the same lines of metrics; renamed settings are written under their new names."""
    expected = expected_of(artefact)
    step = expected["resume"]["step"]
    output(cli("train", "--resume", "run", *expected["resume"]["arguments"]))
    lines = [json.loads(line) for line in Path("run", "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [[line["kind"], line["step"]] for line in lines] == expected["resume"]["metrics"]
    # another processor's vector instructions round differently
    same_processor = set(expected["vector_extensions"]) <= processor_flags()
    tolerance = 1e-5 if same_processor else 1e-2
    with np.load(Path("run", "checkpoints", f"{step:010d}.npz")) as actual, np.load(part) as final:
        names = {name for name in final.files if name != "metadata.json"}
        assert {name for name in actual.files if name != "metadata.json"} == names
        for name in names:
            largest = max(float(np.abs(final[name]).max()), 1e-2)
            np.testing.assert_allclose(actual[name], final[name], atol=tolerance * largest, err_msg=name)
    written = json.loads(Path("run", "config.json").read_text(encoding="utf-8"))
    for name, value in expected["resume"].get("settings", {}).items():  # None: an old name, which is gone
        section, _, key = name.partition(".")
        assert written[section].get(key) == value, name


def processor_flags() -> set[str]:
    """The names of this processor's instruction set extensions."""
    try:
        flags = re.search(r"^flags\s*: (.*)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE)
    except FileNotFoundError:
        return set()
    return set(flags[1].split()) if flags else set()


def test_the_shelf_is_complete_and_small() -> None:
    """Every run and export in a folder of the shelf is tested; a clone of the repository stays small."""
    assert {path.parent for path in DATA.glob("*/*/run")} == set(ARTEFACTS)
    assert sum(file.stat().st_size for file in DATA.rglob("*") if file.is_file()) <= MOST_BYTES
