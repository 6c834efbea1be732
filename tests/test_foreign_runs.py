"""Run folders and exported models made by somebody else, as `SECURITY.md` promises: sentences, never a traceback."""

import io
import itertools
import json
import logging
import tracemalloc
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from seq2seq_chat.chat.chatbot import Chatbot
from seq2seq_chat.checkpoint.arrays import DamagedCheckpoint, read_arrays, write_arrays
from seq2seq_chat.config import parse_config
from seq2seq_chat.data.build_codecs import build_codecs
from seq2seq_chat.data.dataset import open_training_corpus
from seq2seq_chat.engines.onnx import manifest
from seq2seq_chat.engines.onnx.manifest import ExportedModelError, write_manifest
from seq2seq_chat.export.onnx import export_onnx
from seq2seq_chat.report.votes.evaluation import Column, StoredReply, create_evaluation
from seq2seq_chat.runs.run import Run
from seq2seq_chat.runs.summary import add_answer, compare, read_answers
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.text.codec import Codecs
from seq2seq_chat.text.tokenizers import TokenizerSettings
from tests.conftest import edit_config
from tests.random_runs import codec_of_texts, random_run, small_config
from webui.run_details import learning_curves, sample_replies

METRICS = {"step": 7, "kind": "train", "loss": 1.5, "tokens": 10, "seconds": 1.0}
LINE = METRICS | {"source": "a", "question": "a", "reply": "b"}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with a tokenizer of subwords, and with records of a training."""
    codec = codec_of_texts(TokenizerSettings("subword"), ["hello my friend how are you today"] * 5)
    changes = ("data.tokenizer=subword", "decoding.allow_unknown=true", "decoding.replace_unknown=true")
    path = random_run(tmp_path_factory.mktemp("results"), small_config(*changes), Codecs.shared(codec)).path
    for name in ("metrics.jsonl", "samples.jsonl", "answers.jsonl", "history.jsonl"):
        (path / name).write_text(json.dumps(LINE) + "\n", encoding="utf-8")
    for name in ("end.json", "notes.json"):
        (path / name).write_text(json.dumps({"state": "finished", "step": 7, "text": "x"}), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def exported(run: Path) -> Path:
    export_onnx(Run(run), run.parent / "exported")
    return run.parent / "exported"


VALUES = st.sampled_from(
    [None, -1, 10**30, 10**400, 1.5, float("nan"), True, "", "../../x", "/etc/passwd", "\ud800", "a" * 2000, [], {}]
)
ARRAYS = st.sampled_from(
    [
        *(lambda array: array.astype("U3"), lambda array: array.astype(np.float64), lambda array: array[:-1]),
        *(lambda array: np.full_like(array, np.nan), lambda array: array.reshape(-1), np.asfortranarray),
    ]
)


def changed_json(value: Any, data: st.DataObject) -> Any:
    """The value with another one at a random place."""
    if not isinstance(value, (dict, list)) or not value or data.draw(st.integers(0, 9)) == 0:
        return data.draw(VALUES)
    key = data.draw(st.sampled_from(sorted(value) if isinstance(value, dict) else range(min(len(value), 30))))
    copy = value.copy()
    copy[key] = changed_json(value[key], data)
    return copy


def changed_arrays(content: bytes, data: st.DataObject) -> bytes:
    """A checkpoint with another array or other metadata, and correct checksums."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = data.draw(st.sampled_from(sorted(members)))
    if name.endswith(".json"):
        members[name] = json.dumps(changed_json(json.loads(members[name]), data)).encode()
    else:
        array = io.BytesIO()
        np.save(array, data.draw(ARRAYS)(np.load(io.BytesIO(members[name]))))
        members[name] = array.getvalue()
    result = io.BytesIO()
    with zipfile.ZipFile(result, "w") as archive:
        for name, member in members.items():
            archive.writestr(name, member)
    return result.getvalue()


def changed(path: Path, content: bytes, data: st.DataObject) -> bytes:
    """The contents of a file, changed at random: some bytes, or, with knowledge of its format, a part of it."""
    if data.draw(st.booleans()) or path.suffix not in (".json", ".jsonl", ".npz"):
        start = data.draw(st.integers(0, len(content)))
        removed = data.draw(st.sampled_from([0, 1, 20, len(content)]))
        return content[:start] + data.draw(st.binary(max_size=30)) + content[start + removed :]
    if path.suffix == ".npz":
        return changed_arrays(content, data)
    return json.dumps(changed_json(json.loads(content), data)).encode()


def use(path: Path) -> None:
    """What `chat`, `experiments` and the page do with a run."""
    run = Run(path)
    compare([run]), read_answers(run), learning_curves(run), sample_replies(run)
    Chatbot.load(run).reply("hello my friend")


KINDS = pytest.mark.parametrize("kind", ["run", "exported"])
QUICK = settings(deadline=None, max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])


@KINDS
@QUICK
@given(data=st.data())
def test_a_changed_file_gives_a_sentence_or_a_reply(
    request: pytest.FixtureRequest, kind: str, data: st.DataObject
) -> None:
    check_a_changed_file(request.getfixturevalue(kind), data)


@pytest.mark.slow
@KINDS
@settings(QUICK, max_examples=1000)
@given(data=st.data())
def test_many_changed_files(request: pytest.FixtureRequest, kind: str, data: st.DataObject) -> None:
    check_a_changed_file(request.getfixturevalue(kind), data)


def about(description: bytes) -> dict[str, Any]:
    """What the description of an exported model says, without checksums."""
    return {key: value for key, value in json.loads(description).items() if key not in ("format", "files", "sha256")}


def check_a_changed_file(folder: Path, data: st.DataObject) -> None:
    """Change a file, use the run, and restore the file; of an exported model with checksums by who changed it."""
    originals = {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
    path, description = data.draw(st.sampled_from(sorted(originals))), folder / "model.json"
    content = changed(path, originals[path], data)
    logging.disable()
    try:
        path.write_bytes(content)
        if path == description:
            with suppress(ValueError, TypeError):
                values = json.loads(content) | {"sha256": None}
                path.write_text(json.dumps({**values, "sha256": manifest._own_checksum(values)}), encoding="utf-8")
        elif description.exists():
            description.unlink()
            write_manifest(folder, about(originals[description]))
        use(folder)
    except UserError as error:
        assert len(str(error)) < 1000
    finally:
        logging.disable(logging.NOTSET)
        for path, original in originals.items():
            path.write_bytes(original)


@pytest.mark.parametrize("kind", ["header", "compressed", "pickle"])
def test_no_memory_is_allocated_that_the_file_does_not_justify(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    array = io.BytesIO()
    if kind == "header":
        np.lib.format.write_array_header_1_0(array, {"descr": "<f4", "fortran_order": False, "shape": (10**13,)})
        array.write(bytes(1000))
    else:
        np.save(array, np.array([print], object) if kind == "pickle" else np.zeros(5000, np.float32))
    compression = zipfile.ZIP_DEFLATED if kind == "compressed" else zipfile.ZIP_STORED
    with zipfile.ZipFile(tmp_path / "x.npz", "w", compression) as archive:
        archive.writestr("w.npy", array.getvalue())
        archive.writestr("metadata.json", "{}")
    monkeypatch.setattr(np, "ndarray", lambda *_, **__: pytest.fail("allocated"))
    with pytest.raises(DamagedCheckpoint, match=r"that its header says|compressed"):
        read_arrays(tmp_path / "x.npz", ["w"])


def test_members_that_overlap(tmp_path: Path) -> None:
    write_arrays(tmp_path / "x.npz", {"w": np.zeros(1000, np.float32)}, {})
    with zipfile.ZipFile(tmp_path / "x.npz", "a") as archive:
        archive.filelist += archive.filelist[:1] * 3  # the same bytes again
        archive._didModify = True  # type: ignore[attr-defined]
    with pytest.raises(DamagedCheckpoint, match=r"its members overlap"):
        read_arrays(tmp_path / "x.npz", ["w"])


def test_an_exported_model_cannot_name_files_outside(tmp_path: Path, exported: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(np.zeros(4, np.float32).tobytes())
    values = json.loads((exported / "model.json").read_bytes())
    folder = tmp_path / "exported"
    folder.mkdir()
    for path in exported.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    values["files"][f"../{secret.name}"] = {"bytes": 16, "sha256": manifest._file_checksum(secret)}
    values["sha256"] = manifest._own_checksum(values)
    (folder / "model.json").write_text(json.dumps(values), encoding="utf-8")
    with pytest.raises(ExportedModelError, match=r"files.*is missing or invalid"):
        Chatbot.load(Run(folder))

    weights = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4], data_location=TensorProto.EXTERNAL)
    weights.external_data.add(key="location", value=f"../{secret.name}")
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, [4])
    graph = helper.make_graph([helper.make_node("Identity", ["w"], ["y"])], "g", [], [output], [weights])
    onnx.save(helper.make_model(graph), folder / "encoder.onnx")
    (folder / "model.json").unlink()
    write_manifest(folder, about((exported / "model.json").read_bytes()))
    with pytest.raises(ExportedModelError, match=r"encoder.onnx refers to other files"):
        Chatbot.load(Run(folder))


def test_nothing_is_appended_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("", encoding="utf-8")
    (tmp_path / "answers.jsonl").symlink_to(tmp_path / "outside")
    with pytest.raises(UserError, match=r"answers.jsonl could not be written: Too many levels of symbolic links"):
        add_answer(Run(tmp_path), 7, "question", "reply")
    assert (tmp_path / "outside").read_text(encoding="utf-8") == ""


def test_the_lexicon_is_the_one_in_the_folder(run: Path, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes((run / "config.json").read_bytes())
    (tmp_path / "words.tsv").write_text("a\tb\n", encoding="utf-8")
    edit_config(tmp_path, "decoding", lexicon=str(tmp_path / "words.tsv"))
    assert Run(tmp_path).config.decoding.lexicon == str(tmp_path / "lexicon.tsv")


# prepared corpora and votes

DIALOG = "how are you ?\nfine , thanks\n\nwho is it ?\nit 's me 😂\nwhat now ?\n"
FILES = {"train.txt": DIALOG, "train.tsv": "a b\tb a\nhow ?\tlike this\ngo\tno\n", "votes.jsonl": ""}


@pytest.mark.parametrize("examples", [20, pytest.param(1000, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("name", FILES)
def test_a_changed_corpus_or_file_of_votes_gives_a_sentence_or_is_read(
    tmp_path: Path, name: str, examples: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without more memory than a small multiple of what is read intact."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    columns = [Column(run="one"), Column(run="two")]
    evaluation = create_evaluation(tmp_path, "x", columns, ["a", "b", "c"])
    for prompt, column in itertools.product(range(3), range(2)):
        evaluation.add_reply(StoredReply(prompt=prompt, column=column, text="x", step=1))
    votes = [evaluation.add_vote("anna", number, "left") for number in range(3)]
    path = (evaluation.path if name == "votes.jsonl" else tmp_path) / name
    if name != "votes.jsonl":
        path.write_text(FILES[name], encoding="utf-8")
    original = path.read_bytes()

    @settings(QUICK, max_examples=examples)
    @given(data=st.data())
    def check(data: st.DataObject) -> None:
        start = data.draw(st.integers(0, len(original)))
        removed, added = data.draw(st.sampled_from([0, 1, 20, len(original)])), data.draw(st.binary(max_size=30))
        path.write_bytes(original[:start] + added + original[start + removed :])
        if name == "votes.jsonl":
            assert {vote.item for vote in evaluation.votes()} <= {vote.item for vote in votes}
            return
        config = parse_config({"name": "x", "data": {"train": str(path), "vocabulary_size": 30}}, "x")
        with suppress(UserError):
            list(open_training_corpus(config, build_codecs(config.data), lambda _: None).samples(np.arange(1)))

    logging.disable()
    tracemalloc.start()
    try:
        check()
        assert tracemalloc.get_traced_memory()[1] < 64 * 2**20
    finally:
        tracemalloc.stop()
        logging.disable(logging.NOTSET)
