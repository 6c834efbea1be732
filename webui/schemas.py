"""The JSON bodies of requests and responses, as pydantic models."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from seq2seq_chat.chat.generator import Alternative as Choice
from seq2seq_chat.chat.generator import GeneratedToken
from seq2seq_chat.text.codec import replace_surrogates
from webui.limits import Limits
from webui.model_worker import Answer

MAX_NAME_LENGTH = 255

Request = TypeVar("Request", bound=BaseModel)
Chat = TypeVar("Chat", bound="ChatRequest")


class InvalidRequest(Exception):
    """The body of a request is invalid."""


class RequestTooLarge(Exception):
    """The body of a request exceeds a limit of the server."""


def _replace_surrogates(value: Any) -> Any:
    return replace_surrogates(value) if isinstance(value, str) else value


Text = Annotated[str, BeforeValidator(_replace_surrogates)]
"""A string that may contain half an emoji, where a program has cut it; it is read as U+FFFD."""


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
    int | None,
    Field(ge=0, description="training steps of the weights; 404 if the run has no such weights any more"),
]


class RequestBody(BaseModel):
    """The body of a request, in which unknown keys and other types are errors."""

    model_config = ConfigDict(extra="forbid", strict=True)


class ChatRequest(RequestBody):
    """An utterance for a model."""

    run: RunName
    text: Text = Field(description="the utterance")
    snapshot: SnapshotName = None
    step: Step = None
    history: list[Text] = Field(
        [],
        description="the conversation so far, oldest first: user and model in turns; empty for translation runs. If it "
        "is too long, the oldest turns are left out, and `warnings` says so",
    )
    decoding: dict[str, Any] = Field({}, description="decoding settings that differ from those of the run")


class GenerateRequest(RequestBody):
    """A prompt for a language model. Settings that are null are those of the run."""

    run: RunName
    snapshot: SnapshotName = None
    step: Step = None
    prompt: Text = Field("", description="the text to continue; empty to start a new line")
    length: int = Field(1000, ge=1, description="number of tokens to write")
    temperature: float | None = Field(None, gt=0, le=100, description="divides logits")
    top_k: int | None = Field(None, ge=1, description="sample from this number of most probable tokens")
    top_p: float | None = Field(
        None, gt=0, le=1, description="sample from the most probable tokens whose probabilities add up to this number"
    )
    seed: int | None = Field(None, ge=0, lt=2**31, description="the same seed gives the same text; null: a random one")


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
    seconds: float = Field(description="time taken on the server")
    run: str = Field(description="full name of the run")
    step: int | None = Field(description="training steps of the weights")
    seed: int | None = Field(description="of sampling, with which the same request gives the same reply; else null")
    warnings: list[str] = Field(
        description="about damaged files of the model, decoding settings that have no effect, and text that the model "
        "cannot read"
    )


class ReplyText(BaseModel):
    """A reply that is not complete."""

    text: str = Field(description="the most probable reply so far; with beam search, earlier words may still change")


class ErrorResponse(BaseModel):
    """An error message."""

    error: str


class Health(BaseModel):
    """The state of the server."""

    status: str
    version: str
    models: Count = Field(description="number of models in memory")


def parse_chat_request(body: object, limits: Limits, model: type[Chat]) -> Chat:
    """Validate the body of a request with an utterance, whose schema is ``model``.

    Raises:
        InvalidRequest: The body is not a valid chat request.
        RequestTooLarge: The text is too long.
    """
    chat = validate_request(model, body, '{"run": "latest", "text": "hello"}')
    if len(chat.text) > limits.max_text_length:
        raise RequestTooLarge(
            f"An utterance may have at most {limits.max_text_length:,} characters, not {len(chat.text):,}."
        )
    return chat


def recent_turns(history: list[str], limits: Limits) -> list[str]:
    """The newest turns of a conversation, as many as the limits allow."""
    lengths = itertools.accumulate(map(len, reversed(history[-limits.max_history :])))
    count = sum(length <= limits.max_history_length for length in lengths)
    return history[len(history) - count :]


def parse_generate_request(body: object, limits: Limits) -> GenerateRequest:
    """Validate the body of a request for a text.

    Raises:
        InvalidRequest: The body is not valid.
        RequestTooLarge: The prompt or the text is too long.
    """
    text = validate_request(GenerateRequest, body, '{"run": "latest", "prompt": "Once upon a time"}')
    check_lengths([text.prompt], limits)
    if text.length > limits.max_generated:
        raise RequestTooLarge(f"A text may have at most {limits.max_generated:,} tokens, not {text.length:,}.")
    return text


def check_lengths(texts: Iterable[str], limits: Limits) -> None:
    """Raise RequestTooLarge if one of several prompts is too long."""
    if (length := max(map(len, texts))) > limits.max_text_length:
        raise RequestTooLarge(f"A prompt may have at most {limits.max_text_length:,} characters, not {length:,}.")


def validate_request(model: type[Request], body: object, example: str) -> Request:
    """Validate the body of a request; ``example`` is a valid one. Raises InvalidRequest."""
    if not isinstance(body, dict):
        raise InvalidRequest(f"The body must be a JSON object such as {example}.")
    try:
        return model.model_validate(body)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        path = ".".join(str(part) for part in first["loc"])
        raise InvalidRequest(f"{path}: {first['msg'].replace('Input should be', 'must be')}."[:300]) from None


def text_block(tokens: list[GeneratedToken]) -> dict[str, Any]:
    """The JSON of a :class:`TextBlock`, with rounded numbers."""

    def probability(token: GeneratedToken | Choice) -> dict[str, Any]:
        return {"text": replace_surrogates(token.text), "probability": round(token.probability, 4)}

    return {
        "tokens": [{**probability(token), "alternatives": [*map(probability, token.alternatives)]} for token in tokens]
    }


def chat_reply(answer: Answer, run: str, seed: int | None, warnings: list[str], seconds: float) -> dict[str, Any]:
    """The JSON of a :class:`ChatReply`, with rounded numbers."""
    reply = answer.reply
    best = reply.hypotheses[0] if reply.hypotheses else None
    return {
        "reply": reply.text,
        "alternatives": [{"text": h.text, "score": round(h.score, 4)} for h in reply.hypotheses],
        "unknown_words": reply.unknown_words,
        "attention": [[round(weight, 4) for weight in row] for row in best.attention] if best else [],
        "source_words": reply.source_words,
        "reply_words": best.words if best else [],
        "seconds": round(seconds, 4),
        "step": answer.step,
        "run": run,
        "seed": seed,
        "warnings": warnings,
    }
