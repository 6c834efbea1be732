"""The JSON bodies of requests and responses, as pydantic models."""

from __future__ import annotations

import itertools
from typing import Annotated, Any, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    ValidationError,
    ValidationInfo,
    field_validator,
)

from seq2seq_chat.chat.generator import Alternative as Choice
from seq2seq_chat.chat.generator import GeneratedToken
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.text.codec import replace_surrogates
from webui.limits import Limits

MAX_NAME_LENGTH = 255
MAX_TEXTS = 256  # in a request
MAX_PREFIX = 1000  # tokens
MESSAGES = {
    "extra_forbidden": "there is no such field",
    "missing": "is missing",
    "too_short": "must have a length of at least {min_length}, not {actual_length}",
    "too_long": "may have at most {max_length} items, not {actual_length}",
}
"""Messages about an invalid field by the type of pydantic's error; other types have pydantic's message."""

Request = TypeVar("Request", bound=BaseModel)


class InvalidRequest(UserError):
    """The body of a request is invalid; the message begins with the field, if it is about one."""


class RequestTooLarge(Exception):
    """The body of a request exceeds a limit of the server."""


def check_length(text: str, limits: Limits | ValidationInfo) -> str:
    """Raise RequestTooLarge if a text exceeds the limits of the server, which are the context of a validation."""
    longest = (limits if isinstance(limits, Limits) else limits.context or Limits()).max_text_length
    if len(text) > longest:
        raise RequestTooLarge(f"A text may have at most {longest:,} characters, not {len(text):,}.")
    return text


Text = Annotated[str, BeforeValidator(lambda value: replace_surrogates(value) if isinstance(value, str) else value)]
"""A string that may contain half an emoji, where a program has cut it; it is read as U+FFFD."""
Prompt = Annotated[Text, AfterValidator(check_length)]
"""A text for a model."""

Count = Annotated[int, Field(ge=0)]
RunName = Annotated[
    str,
    Field(max_length=MAX_NAME_LENGTH, description="name of a run or a unique prefix of it, or `latest` for the newest"),
]
SnapshotName = Annotated[
    str | None,
    Field(max_length=MAX_NAME_LENGTH, description="name of a snapshot, `best` or `latest`; null: the newest weights"),
]
Step = Annotated[
    int | None, Field(ge=0, description="training steps of the weights; 404 if the run has no such weights any more")
]
Texts = Annotated[
    Annotated[Prompt, Tag("[one]")]
    | Annotated[list[Text], Field(min_length=1, max_length=MAX_TEXTS), Tag("[several]")],
    Discriminator(lambda value: "[several]" if isinstance(value, list) else "[one]"),
]


class RequestBody(BaseModel):
    """The body of a request, in which unknown keys and other types are errors."""

    model_config = ConfigDict(extra="forbid", strict=True)


class ChatRequest(RequestBody):
    """An utterance for a model."""

    run: RunName
    text: Texts = Field(description="the utterance, or several independent ones, each with this history")
    snapshot: SnapshotName = None
    step: Step = None
    history: list[Text] = Field(
        [],
        description="the conversation so far, oldest first: user and model in turns; empty for translation runs. If it "
        "is too long, the oldest turns are left out, and `warnings` says so, or that the model reads a single turn",
    )
    decoding: dict[str, Any] = Field({}, description="decoding settings that differ from the run's")
    prefix: Text | Annotated[list[Text], Field(max_length=MAX_PREFIX)] = Field(
        "",
        description="what the reply must start with, even if a setting forbids it: a text, or tokens; the token "
        "`<eos>` ends it, and tokens that are not in the vocabulary of the target are `<unknown>`",
    )


class GenerateRequest(RequestBody):
    """A prompt for a language model. For settings that are null, the run's apply."""

    run: RunName
    snapshot: SnapshotName = None
    step: Step = None
    prompt: Prompt = Field("", description="the text to continue; empty to start a new line")
    length: int = Field(1000, ge=1, description="number of tokens to write")
    temperature: float | None = Field(None, gt=0, le=100, description="divides logits")
    top_k: int | None = Field(None, ge=1, description="sample from this number of most probable tokens")
    top_p: float | None = Field(
        None, gt=0, le=1, description="sample from the most probable tokens whose probabilities add up to this number"
    )
    seed: int | None = Field(None, ge=0, lt=2**31, description="the same seed gives the same text; null: a random one")

    @field_validator("length")
    @classmethod
    def _check_length(cls, length: int, info: ValidationInfo) -> int:
        longest = (info.context or Limits()).max_generated
        if length > longest:
            raise RequestTooLarge(f"A text may have at most {longest:,} tokens, not {length:,}.")
        return length


class TokenProbability(BaseModel):
    """A token that may come next."""

    text: str
    probability: float


class TextToken(TokenProbability):
    """A token of a text. Probabilities are the model's own, at temperature 1."""

    alternatives: list[TokenProbability] = Field(description="the most probable tokens, which may include this one")


class TextBlock(BaseModel):
    """Further tokens of a text."""

    tokens: list[TextToken]


class TextEnd(BaseModel):
    """The last line of a complete text."""

    seed: int = Field(description="of the random numbers")
    step: int | None = Field(description="training steps of the weights")
    warnings: list[str] = Field(description="about tokens of the prompt that are not in the vocabulary")
    seconds: float = Field(description="time taken on the server")


class Alternative(BaseModel):
    """A hypothesis of the search."""

    text: str
    score: float = Field(description="log-probability of its tokens and the end marker, in nats")


class ErrorResponse(BaseModel):
    """An error message."""

    error: str


class ChatReply(BaseModel):
    """A reply, with all hypotheses and the attention."""

    reply: str = Field(description="as people write it; empty if the utterance has no tokens")
    alternatives: list[Alternative] = Field(
        description="all hypotheses, best first; samples in the order of sampling; the first is the reply"
    )
    unknown_words: list[str] = Field(description="tokens of the utterance that are not in the vocabulary of the source")
    attention: list[list[float]] = Field(
        description="one row per token of the reply, one column per source token; each row sums to 1"
    )
    source_words: list[str] = Field(description="the tokens that the model read")
    reply_words: list[str] = Field(description="the tokens of the reply")
    ended: bool | None = Field(description="whether the model ended it, not the limit of its length; null if empty")
    seconds: float = Field(description="time taken on the server, without loading the model")
    run: str = Field(description="full name of the run")
    step: int | None = Field(description="training steps of the weights")
    seed: int | None = Field(description="of sampling, with which the same request gives the same reply; else null")
    warnings: list[str] = Field(
        description="about damaged files of the model, decoding settings that have no effect, and text that the model "
        "cannot read"
    )


class ChatReplies(BaseModel):
    """The replies to several utterances."""

    replies: list[ChatReply | ErrorResponse] = Field(description="in the order of the utterances")


class ReplyText(BaseModel):
    """A reply that is not complete."""

    text: str = Field(description="the most probable reply so far; with beam search, earlier words may still change")


class Health(BaseModel):
    """The state of the server."""

    status: str
    version: str
    models: Count = Field(description="number of models in memory")


def recent_turns(history: list[str], limits: Limits) -> list[str]:
    """The newest turns of a conversation, as many as the limits allow."""
    lengths = itertools.accumulate(map(len, reversed(history[-limits.max_history :])))
    count = sum(length <= limits.max_history_length for length in lengths)
    return history[len(history) - count :]


def validate_request(model: type[Request], body: object, limits: Limits, example: str) -> Request:
    """Validate the body of a request; ``example`` is a valid one. Raises InvalidRequest and RequestTooLarge."""
    if not isinstance(body, dict):
        raise InvalidRequest(f"The body must be a JSON object such as {example}.")
    try:
        return model.model_validate(body, context=limits)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        path = ".".join(part for part in map(str, first["loc"]) if "[" not in part)  # without tags of a union
        message = first["msg"].replace("Input should be", "must be")
        if template := MESSAGES.get(first["type"]):
            message = template.format(**first.get("ctx", {}))
        raise InvalidRequest(f"{path}: {message}."[:300]) from None


def text_block(tokens: list[GeneratedToken]) -> dict[str, Any]:
    """The JSON of a :class:`TextBlock`, with rounded numbers."""

    def probability(token: GeneratedToken | Choice) -> dict[str, Any]:
        return {"text": replace_surrogates(token.text), "probability": round(token.probability, 4)}

    return {
        "tokens": [{**probability(token), "alternatives": [*map(probability, token.alternatives)]} for token in tokens]
    }
