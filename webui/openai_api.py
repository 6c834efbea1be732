"""Chat completions in OpenAI's protocol, so that its clients can talk to runs. A model is RUN or RUN:SNAPSHOT."""

from __future__ import annotations

import json
import re
import secrets
import time
from collections.abc import Iterator
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Annotated, Any, Literal

from flask import Blueprint, Response
from pydantic import BaseModel, Field

from seq2seq_chat.chat.joint_replies import NEVER, StopRule
from seq2seq_chat.config import Config
from seq2seq_chat.runs.run import LATEST, Run, RunError
from seq2seq_chat.system.errors import UserError
from webui.api import error_object, json_response, queue_all, read_body, wait_for_answer
from webui.app_state import get_state
from webui.chat_answers import ChatQuestion, check_task, find_run, read_first, send_parts
from webui.model_worker import Answer, ReplyStream
from webui.openapi import EVENTS, Operation
from webui.run_registry import NotFoundError, snapshots, weights_version
from webui.schemas import ChatRequest, InvalidRequest, Prompt

MAX_CHOICES = 32
EXAMPLE = '{"model": "latest", "messages": [{"role": "user", "content": "hello"}]}'

ModelName = Annotated[str, Field(max_length=512, description="RUN or RUN:SNAPSHOT")]

openai = Blueprint("openai", __name__)


class ContentPart(BaseModel):
    """A part of a message; those that are not of the type text are refused."""

    type: str
    text: Prompt = ""


class Message(BaseModel):
    """A message; system messages are ignored, as the models know none."""

    role: Literal["system", "developer", "user", "assistant"]
    content: Prompt | list[ContentPart] | None = None

    @property
    def text(self) -> str:
        return self.content if isinstance(self.content, str) else "\n".join(part.text for part in self.content or [])


class CompletionRequest(BaseModel, extra="allow", strict=True):
    """A request for the next message; parameters that are not here are ignored."""

    model: ModelName
    messages: list[Message] = Field(min_length=1)
    temperature: float | None = Field(None, ge=0, le=100)
    top_p: float | None = Field(None, gt=0, le=1)
    seed: int | None = None
    n: int | None = Field(None, ge=1, le=MAX_CHOICES)
    max_tokens: int | None = Field(None, ge=1)
    max_completion_tokens: int | None = Field(None, ge=1)
    stop: str | list[str] | None = None
    stream: bool | None = None
    stream_options: dict[str, Any] | None = None

    @property
    def stops(self) -> list[str]:
        """The texts before which a reply ends."""
        return [one for one in ([self.stop] if isinstance(self.stop, str) else self.stop or []) if one]

    @property
    def longest(self) -> int | None:
        """The number of tokens after which a reply ends."""
        return self.max_completion_tokens or self.max_tokens

    @property
    def stop_rule(self) -> StopRule:
        """When the search can end."""
        return StopRule(self.longest, tuple(self.stops))

    def decoding(self, config: Config, index: int) -> dict[str, Any]:
        """The changed decoding settings of one of the choices; sampling is chosen by its settings, or by several."""
        changes: dict[str, Any] = {"n_best": 1}
        if self.temperature == 0:
            changes["method"] = "greedy"
        elif (self.n or 1) > 1 or (self.temperature, self.top_p) != (None, None):
            chosen = {"temperature": self.temperature, "top_p": self.top_p}
            changes |= {"method": "sample"} | {name: value for name, value in chosen.items() if value is not None}
        if self.seed is not None and changes.get("method", config.decoding.method) == "sample":
            changes["seed"] = (self.seed + index) % 2**31
        return changes


class OpenAIError(BaseModel):
    """An error: its message, type, code, and the invalid field as param."""

    error: dict[Literal["message", "type", "param", "code"], str | None]


@openai.get("/v1/models")
@Operation("listModels", "The models, as OpenAI describes them", (), error=OpenAIError)
def models() -> Response:
    """List all runs that reply, and their snapshots."""
    state, found = get_state(), []
    for run in reversed(state.registry.runs().values()):
        summary = state.registry.summary(run)
        if run.newest_step is not None and summary.task in ("conversation", "translation"):
            names = [run.path.name, *(f"{run.path.name}:{name}" for name in snapshots(run) if name != LATEST)]
            found += [_model(name, run) for name in names]
    return json_response({"object": "list", "data": found})


@openai.get("/v1/models/<name>")
@Operation("retrieveModel", "The model, as OpenAI describes it", (), error=OpenAIError)
def model(name: ModelName) -> Response:
    """Find a model by a name that a request may have."""
    run, config, snapshot = _find_model(name)
    check_task(run, config)
    try:
        weights_version(run, snapshot)
    except RunError as error:
        raise NotFoundError(str(error)) from error
    return json_response(_model(name, run))


def _model(name: str, run: Run) -> dict[str, Any]:
    created = int(get_state().registry.summary(run).changed)
    return {"id": name, "object": "model", "created": created, "owned_by": "seq2seq-chat"}


@openai.post("/v1/chat/completions")
@Operation("complete", "Replies, as OpenAI describes them", (), body=CompletionRequest, error=OpenAIError, errors=[503])
def completions() -> Response:
    """Reply to the last of some messages."""
    state, body = get_state(), read_body(CompletionRequest, EXAMPLE)
    run, config, snapshot = _find_model(body.model)
    kinds = (part.type for message in body.messages if isinstance(message.content, list) for part in message.content)
    if other := next((kind for kind in kinds if kind != "text"), None):
        raise InvalidRequest(f"messages: models read text only; leave out the parts of type {other[:60]!r}.")
    said = [message for message in body.messages if message.role in ("user", "assistant")]
    turns = [message for message in said if message.text or message.role == "user"]
    if not turns or turns[-1].role != "user":
        raise InvalidRequest("messages: the last one must have the role user.")
    ignored = [name for name in body.model_extra or {} if re.fullmatch(r"\w{1,60}", name, re.ASCII)]
    ignored += ["messages.system"] * (len(said) < len(body.messages))
    if len(turns) > 1 and (config.task == "translation" or config.data.context_turns == 1):
        ignored.append("messages.history")
        turns = turns[-1:]
    *history, text = (turn.text for turn in turns)
    request = ChatRequest(run=run.path.name, snapshot=snapshot, text=text, history=history)
    changes = [{"decoding": body.decoding(config, index)} for index in range(body.n or 1)]
    questions = [ChatQuestion(request.model_copy(update=change), True, body.stop_rule) for change in changes]
    completion = Completion(body, run, questions)
    if body.stream:
        try:
            for question in questions:
                completion.streams.append(question.send(state.pool.stream))
            first = read_first(completion.streams[0], state.limits.timeout)
        except Exception:  # nobody reads what has started
            completion.stop()
            raise
        response = send_parts(completion.events(first, state.limits.timeout), EVENTS, completion.stop)
    else:
        ends_early = body.stop_rule != NEVER  # by steps that are watched
        futures = queue_all(
            questions, lambda one: one.send(state.pool.stream).future if ends_early else one.send(state.pool.submit)
        )
        response = json_response(completion.whole([wait_for_answer(future) for _, future in futures]))
    if ignored:
        response.headers["X-Ignored-Parameters"] = ", ".join(ignored)
    return response


def _find_model(name: str) -> tuple[Run, Config, str | None]:
    """The run and the snapshot of RUN or RUN:SNAPSHOT. Raises NotFoundError."""
    try:
        return *find_run(name), None
    except NotFoundError:
        if ":" not in name:
            raise
    run, _, snapshot = name.rpartition(":")
    return *find_run(run), snapshot


class Completion:
    """The JSON of a completion, whole or in parts."""

    def __init__(self, request: CompletionRequest, run: Run, questions: list[ChatQuestion]) -> None:
        self.request, self.run, self.questions = request, run, questions
        self.streams: list[ReplyStream] = []  # of the choices, if it is sent in parts
        self._common = {"id": f"chatcmpl-{secrets.token_hex(9)}", "created": int(time.time()), "model": request.model}

    def whole(self, answers: list[Answer]) -> dict[str, Any]:
        """The object that has all choices."""
        choices = [
            {"index": index, "message": {"role": "assistant", "content": text}, "finish_reason": reason}
            for index, (text, reason) in enumerate(map(self.cut, answers))
        ]
        return self._common | {"object": "chat.completion", "choices": choices, "usage": self._usage(answers)}

    def cut(self, answer: Answer) -> tuple[str, str]:
        """The text of a choice and the reason why it ends."""
        text, best = answer.reply.text, answer.reply.hypotheses[:1]
        reason = "stop" if all(one.ended for one in best) else "length"
        if best and self.request.longest is not None and len(best[0].words) > self.request.longest:
            text, reason = self.run.codecs.target.text(best[0].words[: self.request.longest]), "length"
        if places := [text.index(stop) for stop in self.request.stops if stop in text]:
            text, reason = text[: min(places)], "stop"
        return text, reason

    def stop(self) -> None:
        for stream in self.streams:
            stream.stop()

    def events(self, part: str | None, timeout: float) -> Iterator[str]:
        """Server-sent events with what is new of each choice, one after the other.

        What is sent stays: of a beam, the beginning that its hypotheses share, and no word that may go on.
        """
        answers = []
        try:
            for index, stream in enumerate(self.streams):
                yield self._event(index, {"role": "assistant", "content": ""})
                sent = ""
                part = part if index == 0 else stream.read(timeout)
                while part is not None:
                    ready = self._certain(part)
                    if len(ready) > len(sent) and ready.startswith(sent):
                        yield self._event(index, {"content": ready[len(sent) :]})
                        sent = ready
                    part = stream.read(timeout)
                answers.append(stream.future.result())
                text, reason = self.cut(answers[-1])
                if text.startswith(sent) and text != sent:
                    yield self._event(index, {"content": text[len(sent) :]})
                yield self._event(index, {}, reason)
            if (self.request.stream_options or {}).get("include_usage"):
                yield self._data({"choices": [], "usage": self._usage(answers)})
            yield "data: [DONE]\n\n"
        except (FutureTimeout, UserError) as error:
            yield f"data: {json.dumps({'error': error_object(self.questions[0].public(str(error)), 503)})}\n\n"

    def _certain(self, text: str) -> str:
        """The beginning of a growing text that is part of the cut reply in any case."""
        longest, stops = self.request.longest, self.request.stops
        if longest is not None and len(self.run.codecs.target.tokenizer.encode(text)) > longest:
            return ""
        held = max(map(len, stops), default=1) - 1  # a stop may have begun
        return text[: max(0, min([len(text) - held, *(text.index(stop) for stop in stops if stop in text)]))]

    def _event(self, index: int, delta: dict[str, Any], reason: str | None = None) -> str:
        return self._data({"choices": [{"index": index, "delta": delta, "finish_reason": reason}]})

    def _data(self, content: dict[str, Any]) -> str:
        return f"data: {json.dumps(self._common | {'object': 'chat.completion.chunk'} | content)}\n\n"

    def _usage(self, answers: list[Answer]) -> dict[str, int]:
        read = len(answers[0].reply.source_words)
        best = [one for answer in answers for one in answer.reply.hypotheses[:1]]
        written = sum(len(one.words[: self.request.longest]) for one in best)
        return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
