"""The section `decoding`: how replies are generated."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from seq2seq_chat.config.section import FilePath, PositiveInt, Section


class Decoding(Section):
    """How replies are generated; can be overridden when chatting."""

    method: Literal["greedy", "beam", "sample"] = Field(
        "greedy", description="the most probable token at each step, beam search, or random sampling"
    )
    n_best: PositiveInt = Field(1, description="number of replies; with sample: number of samples")
    beam_width: Annotated[int, Field(gt=0, le=1000)] = Field(10, description="beam: number of hypotheses")
    length_penalty: Annotated[float, Field(ge=0, le=10)] = Field(
        0.0, description="beam: divide scores by ((5 + tokens) / 6)^length_penalty, which favors longer replies"
    )
    beam_groups: PositiveInt = Field(1, description="beam: number of groups for diverse beam search")
    diversity_penalty: Annotated[float, Field(ge=0, le=100)] = Field(
        0.5, description="beam: penalty in nats for each earlier group that chose the same token"
    )
    temperature: Annotated[float, Field(gt=0, le=100)] = Field(
        1.0, description="sample: divide logits by this; lower values make probable tokens more probable"
    )
    top_k: PositiveInt | None = Field(None, description="sample: sample from the k most probable tokens")
    top_p: Annotated[float, Field(gt=0, le=1)] | None = Field(
        None, description="sample: sample from the most probable tokens whose probabilities add up to p"
    )
    seed: Annotated[int, Field(ge=0, lt=2**31)] | None = Field(
        None, description="sample: the same seed gives the same replies; null: different ones each time"
    )
    min_length: Annotated[int, Field(ge=0, le=10**4)] = Field(0, description="minimum tokens of a reply")
    no_repeat_ngram_size: Annotated[int, Field(ge=0, le=10**4)] = Field(
        0, description="n-grams of this many tokens may not occur twice in a reply; 0: no restriction"
    )
    repetition_penalty: Annotated[float, Field(ge=1, le=100)] = Field(
        1.0, description="divide positive logits of tokens already in the reply by this, multiply negative ones"
    )
    unrolling: Literal["static", "dynamic"] | None = Field(
        None,
        description="greedy, beam: our search, or tensorflow-addons' dynamic decoder; null: as model.unrolling if the "
        "other options allow it",
    )
    rerank: Literal["none", "anti_language_model", "bidirectional"] = Field(
        "none", description="beam: rerank hypotheses by mutual information, to avoid generic replies"
    )
    rerank_weight: Annotated[float, Field(ge=0, le=10)] = Field(
        0.5, description="rerank: weight of the language model, or of the backward model"
    )
    rerank_prefix_length: PositiveInt = Field(
        5, description="rerank anti_language_model: number of first tokens of a reply that are penalized"
    )
    backward_run: FilePath | None = Field(
        None, description="rerank bidirectional: a run trained with data.swap_source_target"
    )
    allow_unknown: bool = Field(False, description="allow <unknown> in replies")
    replace_unknown: bool = Field(
        False, description="replace <unknown> with the source token with the highest attention weight"
    )
    lexicon: FilePath | None = Field(
        None,
        description="replace_unknown: TSV of source word, target word and optional probability or count, whose entries "
        "replace <unknown>; words without an entry are copied",
    )

    @model_validator(mode="after")
    def _n_best_is_available(self) -> Decoding:
        available = {"greedy": 1, "beam": self.beam_width}.get(self.method, self.n_best)
        if self.n_best > available:
            raise ValueError(
                f"n_best is {self.n_best}, but {self.method} search has {available} "
                f"hypothes{'is' if available == 1 else 'es'}; use beam search with a beam_width of at least n_best"
            )
        return self

    @model_validator(mode="after")
    def _options_apply(self) -> Decoding:
        for method, names in OPTIONS_OF_METHOD.items():
            unused = [name for name in names if getattr(self, name) != type(self).model_fields[name].default]
            if unused and self.method != method:
                raise ValueError(
                    f"{unused[0]} applies to method {method} only, but method is {self.method}; "
                    f"remove it or use {method}"
                )
        if self.beam_width % self.beam_groups and self.beam_groups > 1:
            raise ValueError(f"beam_width {self.beam_width} does not divide evenly into {self.beam_groups} beam_groups")
        if self.unrolling == "dynamic" and not self.supports_dynamic:
            raise ValueError(
                "unrolling dynamic supports only greedy and beam search with a length_penalty; remove the other "
                "options or use static"
            )
        if self.rerank == "bidirectional" and self.backward_run is None:
            raise ValueError("rerank bidirectional requires backward_run, a run trained with data.swap_source_target")
        if self.backward_run is not None and self.rerank != "bidirectional":
            raise ValueError("backward_run applies to rerank bidirectional only")
        if self.replace_unknown and not self.allow_unknown:
            raise ValueError("replace_unknown requires allow_unknown")
        return self

    @property
    def supports_dynamic(self) -> bool:
        """Whether the dynamic decoder supports these options."""
        return (
            self.method != "sample"
            and self.beam_groups == 1
            and not (self.min_length or self.no_repeat_ngram_size or self.repetition_penalty != 1)
        )


OPTIONS_OF_METHOD = {
    "beam": ("length_penalty", "beam_groups", "diversity_penalty", "rerank", "backward_run"),
    "sample": ("temperature", "top_k", "top_p", "seed"),
}
"""Options that apply to one method only. beam_width is allowed with any, as the default for beam search."""
