"""What an experiment is: one typed, strict JSON file.

Every setting has its type, its range, its one default and one line of meaning here and nowhere else. An unknown key
or an impossible value is a :class:`ConfigError` that names the path of the key and what is allowed. Sections carry the
names of the packages that read them.
"""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal, Optional, Union

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from seq2seq_chat.errors import UserError

PositiveInt = Annotated[int, Field(gt=0, le=10**9)]
Units = Annotated[int, Field(gt=0, le=10**6)]
Steps = Annotated[int, Field(gt=0, le=10**4)]
PositiveFloat = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Limits = Annotated[tuple[PositiveInt, PositiveInt], Field(strict=False)]  # JSON has lists only


def _file_path(path: str) -> str:
    try:
        if path and b"\0" not in os.fsencode(path):
            return path
    except UnicodeEncodeError:
        pass
    raise ValueError(f"must be the path of a file (it is {json.dumps(path)})")


FilePath = Annotated[str, AfterValidator(_file_path)]
RUN_NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]*$"


class ConfigError(UserError):
    """A configuration that cannot be used; the message names the key, the fault and the remedy."""


class Section(BaseModel):
    """Common rules of all sections: no unknown keys, no silent conversions, immutable once read."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Data(Section):
    """The corpora, the vocabulary, and how utterances become samples."""

    train: FilePath = Field(description="corpus file to learn from, relative to the working directory")
    validation: Optional[FilePath] = Field(
        None, description="corpus file for the loss while training; null: not validated"
    )
    test: Optional[FilePath] = Field(None, description="corpus file that `evaluate` uses unless told otherwise")
    vocabulary: Optional[FilePath] = Field(
        None, description="vocabulary file, one word a line; null: counted on the training corpus"
    )
    vocabulary_size: Annotated[int, Field(gt=4)] = Field(
        50_000, description="words the model knows, the four special ones included; rarer words are <unknown>"
    )
    level: Literal["word", "character"] = Field("word", description="what a token is")
    pairing: Literal["sliding", "alternating"] = Field(
        "sliding", description="sliding: each utterance answers the one before; alternating: odd lines ask, even answer"
    )
    buckets: Union[Literal["auto"], list[Limits], None] = Field(
        None,
        description="step limits [source, target] of batches, each a graph of its own; samples go where they fit, so "
        "that little is computed for padding; auto: chosen from the corpus's lengths; null: one graph of all steps",
    )
    most_buckets: PositiveInt = Field(4, description="graphs that `buckets: auto` may choose")
    reverse_input: bool = Field(False, description="feed the source utterance to the encoder last word first")


class Model(Section):
    """The architecture. Everything here shapes the variables and cannot change when a run goes on."""

    cell: Literal["lstm"] = Field("lstm", description="recurrent cell of encoder and decoder")
    layers: Annotated[int, Field(gt=0, le=100)] = Field(
        1, description="stacked cells in the encoder, and as many in the decoder"
    )
    hidden_size: Units = Field(2048, description="units of a cell's state")
    embedding_size: Units = Field(1024, description="units of a word vector")
    projection_size: Optional[Units] = Field(
        1024, description="units between the decoder and the softmax; null: the softmax reads the decoder directly"
    )
    attention: Literal["additive", "none"] = Field("additive", description="score of the decoder's attention")
    dropout: Annotated[float, Field(ge=0, lt=1)] = Field(
        0.0, description="share of units dropped while training, at word vectors, between layers and before the output"
    )
    shared_embeddings: bool = Field(False, description="one table of word vectors for encoder and decoder")
    pretrained_embeddings: Optional[FilePath] = Field(
        None, description="word2vec or fastText text file whose vectors start the tables, of embedding_size units"
    )
    encoder_steps: Steps = Field(30, description="tokens of an utterance that the encoder reads, at most")
    decoder_steps: Steps = Field(30, description="tokens of a reply, the end marker included, at most")


class Training(Section):
    """How the variables are learned."""

    batch_size: PositiveInt = Field(64, description="samples in a step")
    batch_parts: Optional[PositiveInt] = Field(
        None,
        description="parts of a batch that are computed side by side, each on its cores; null: as suits the machine",
    )
    steps: PositiveInt = Field(3_000_000, description="batches until training is finished")
    optimizer: Literal["adagrad", "adadelta", "adam", "rmsprop", "sgd"] = Field(
        "adagrad", description="rule that turns gradients into updates"
    )
    learning_rate: PositiveFloat = Field(0.01, description="size of an update")
    momentum: Annotated[float, Field(ge=0, lt=1)] = Field(0.0, description="momentum of rmsprop and sgd")
    gradient_clipping: Optional[PositiveFloat] = Field(
        10.0, description="largest global norm of the gradient; longer ones are rescaled; null: never"
    )
    sampled_softmax: Optional[PositiveInt] = Field(
        512,
        description="words sampled for the training loss where the vocabulary is larger; null: always the full softmax",
    )
    precision: Literal["float32", "bfloat16", "float16"] = Field(
        "float32",
        description="type in which matrices are multiplied while training; weights, optimizer and loss stay in float32",
    )
    log_every: PositiveInt = Field(50, description="steps between two lines of training metrics")
    validate_every: PositiveInt = Field(10_000, description="steps between two validations")
    validation_limit: Optional[PositiveInt] = Field(
        10_000, description="samples of the validation corpus that are used, evenly spread; null: all"
    )
    sample_replies: Annotated[int, Field(ge=0)] = Field(
        5, description="validation utterances that are answered at each validation, to watch the model learn"
    )
    checkpoint_every: PositiveInt = Field(10_000, description="steps between two checkpoints")
    keep_checkpoints: PositiveInt = Field(3, description="newest checkpoints that are kept")
    snapshot_every: Optional[PositiveInt] = Field(
        500_000, description="steps between two snapshots of the weights that are kept for ever; null: no snapshots"
    )

    @model_validator(mode="after")
    def _every_part_has_rows(self) -> Training:
        if self.batch_parts is not None and self.batch_parts > self.batch_size:
            raise ValueError(f"batch_parts is {self.batch_parts}, but a batch has {self.batch_size} samples only")
        return self

    @model_validator(mode="after")
    def _momentum_has_a_reader(self) -> Training:
        if self.momentum and self.optimizer not in ("rmsprop", "sgd"):
            raise ValueError(f"momentum is used by rmsprop and sgd only, and the optimizer is {self.optimizer}")
        return self


class Decoding(Section):
    """How a reply is searched, unless the person who chats chooses otherwise."""

    method: Literal["greedy", "beam"] = Field("greedy", description="best word by word, or beam search")
    beam_width: Annotated[int, Field(gt=0, le=1000)] = Field(10, description="hypotheses that beam search keeps")
    n_best: PositiveInt = Field(1, description="replies returned, best first")
    allow_unknown: bool = Field(False, description="whether <unknown> may stand in a reply")

    @model_validator(mode="after")
    def _n_best_within_the_beam(self) -> Decoding:
        available = 1 if self.method == "greedy" else self.beam_width
        if self.n_best > available:
            raise ValueError(
                f"n_best is {self.n_best}, but {self.method} search has {available} "
                f"hypothes{'is' if available == 1 else 'es'}; use beam search with a beam_width of at least n_best"
            )
        return self


class Config(Section):
    """One experiment."""

    name: Annotated[str, Field(pattern=RUN_NAME, max_length=100)] = Field(
        description="what the experiment is called; part of the run's folder"
    )
    seed: Annotated[int, Field(ge=0, lt=2**31)] = Field(1, description="source of every random number")
    data: Data
    model: Model = Model()
    training: Training = Training()
    decoding: Decoding = Decoding()

    def to_json(self) -> str:
        """The complete experiment, defaults included, as it is kept in a run."""
        return json.dumps(self.model_dump(), indent=2) + "\n"


def load_config(path: Union[str, Path], overrides: Iterable[str] = ()) -> Config:
    """Read an experiment; ``overrides`` are ``section.key=value`` strings, the value JSON or plain text.

    Raises:
        ConfigError: the file cannot be read, is not JSON, or does not describe an experiment.
    """
    return parse_config(_read_json(Path(path)), where=str(path), overrides=overrides)


def parse_config(settings: Any, where: str, overrides: Iterable[str] = ()) -> Config:
    """Check settings that were read from JSON; ``where`` names their origin in messages."""
    if not isinstance(settings, dict):
        raise ConfigError(f"{where}: a configuration is a JSON object, {{…}}, not a {_json_type(settings)}")
    settings = {key: value for key, value in settings.items() if key != "$schema"}  # written for editors
    for override in overrides:
        _apply_override(settings, override)
    try:
        return Config.model_validate(settings)
    except ValidationError as error:
        raise ConfigError(_explain(error, where)) from error


def decoding_with(decoding: Decoding, **changes: Any) -> Decoding:
    """The same way of decoding with some settings changed; a changed value of None means "as it was".

    Raises:
        ConfigError: a key does not exist or the values do not fit together.
    """
    settings = decoding.model_dump() | {key: value for key, value in changes.items() if value is not None}
    try:
        return Decoding.model_validate(settings)
    except ValidationError as error:
        raise ConfigError(_explain(error, "decoding", model=Decoding)) from error


def json_schema() -> str:
    """The JSON schema of a configuration, for editors that complete and check while typing."""
    schema = Config.model_json_schema()
    schema["properties"]["$schema"] = {"type": "string", "description": "this schema, for editors"}
    return json.dumps(schema, indent=2) + "\n"


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8-sig"), object_pairs_hook=_without_repetition)
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such configuration file") from None
    except json.JSONDecodeError as error:
        raise ConfigError(f"{path}: not valid JSON at line {error.lineno}, column {error.colno}: {error.msg}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 text (byte {error.start}); save the file as UTF-8") from None
    except _RepeatedKey as repeated:
        raise ConfigError(f"{path}: the key {repeated} stands there twice; remove one of them") from None
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, or thousands of brackets
        raise ConfigError(f"{path}: has a number or a nesting of brackets that is far too long") from error
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None


class _RepeatedKey(Exception):
    """A JSON object with a key that stands there twice, of which Python would silently take the last."""


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    for key, value in pairs:
        if key in settings:
            raise _RepeatedKey(key)
        settings[key] = value
    return settings


def _apply_override(settings: dict[str, Any], override: str) -> None:
    path, separator, text = override.partition("=")
    if not separator or not path:
        raise ConfigError(f"--set {override}: write KEY=VALUE, for example training.batch_size=32")
    *sections, key = path.split(".")
    target = settings
    for section in sections:
        inner = target.get(section, {})
        if not isinstance(inner, dict):
            raise ConfigError(f"--set {override}: {section} is a value, not a section")
        target[section] = target = dict(inner)  # never change the caller's nested settings
    try:
        target[key] = json.loads(text)
    except json.JSONDecodeError:
        target[key] = text
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"--set {path}=…: this number or nesting of brackets is far too long") from error


def _explain(error: ValidationError, where: str, model: type[BaseModel] = Config) -> str:
    """One sentence for each fault, with the path of the key and what is allowed."""
    faults = [_explain_fault(fault, model) for fault in error.errors()]
    shown = "; ".join(faults[:5])
    return f"{where}: {shown}" + (f"; and {len(faults) - 5} more" if len(faults) > 5 else "")


def _explain_fault(fault: Any, model: type[BaseModel]) -> str:
    location = [str(part) for part in fault["loc"]]
    if fault["type"] != "extra_forbidden":  # pydantic's names for the members of a union are no keys
        location = [part for part in location if "[" not in part]
    path = ".".join(location)
    if fault["type"] == "extra_forbidden":
        return f"unknown key {path}{_suggestion(location, model)}"
    if fault["type"] == "missing":
        return f"{path} is missing"
    if fault["type"] == "value_error":
        return (f"{path}: " if path else "") + str(fault["ctx"]["error"])
    message = fault["msg"].replace("Input should be", "must be").replace("'", "")
    message = message.replace("must be a valid dictionary or instance of", "must be a JSON object with the settings of")
    if fault["type"] == "string_pattern_mismatch":
        message = "must be made of letters, digits, dots, dashes and underscores, and start with a letter or digit"
    given = json.dumps(fault["input"], default=str)
    return f"{path} {message} (it is {given if len(given) <= 60 else given[:57] + '...'})"


def _suggestion(location: list[str], model: type[BaseModel]) -> str:
    """Where the unknown key was probably meant to go: the nearest name anywhere in the configuration."""
    valid = list(_paths(model))
    path = ".".join(location)
    same_name = [candidate for candidate in valid if candidate.split(".")[-1] == location[-1]]
    near_name = difflib.get_close_matches(location[-1], [candidate.split(".")[-1] for candidate in valid], n=1)
    near_path = [
        candidate
        for candidate in difflib.get_close_matches(path, valid, n=1, cutoff=0.6)
        if difflib.SequenceMatcher(None, candidate.split(".")[-1], location[-1]).ratio() >= 0.5  # not the section alone
    ]
    if same_name:
        return f"; did you mean {same_name[0]}?"
    if near_path and (not near_name or near_path[0].split(".")[-1] == near_name[0]):
        return f"; did you mean {near_path[0]}?"
    if near_name:
        return f"; did you mean {next(c for c in valid if c.split('.')[-1] == near_name[0])}?"
    siblings = [c for c in valid if c.split(".")[:-1] == location[:-1]]
    return f"; known here: {', '.join(c.split('.')[-1] for c in siblings)}" if siblings else ""


def _paths(model: type[BaseModel], prefix: str = "") -> Iterable[str]:
    for name, field in model.model_fields.items():
        yield prefix + name
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from _paths(field.annotation, f"{prefix}{name}.")


def _json_type(value: Any) -> str:
    names: dict[type, str] = {list: "list", str: "string", bool: "boolean", int: "number", float: "number"}
    return "null" if value is None else names[type(value)]
