"""The section `decoding`: how replies are generated."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from seq2seq_chat.config.section import (
    OF_SAMPLES,
    AppliesIf,
    FilePath,
    LanguageModelsRequire,
    PositiveInt,
    Section,
    conditions,
)

METHOD = "decoding.method"
OF_BEAM, OF_SAMPLING = (
    AppliesIf(METHOD, method, error=f"applies to method {method} only, but method is {{}}; remove it or use {method}")
    for method in ("beam", "sample")
)
OF_SEVERAL, OF_GROUPS = AppliesIf("decoding.top_k", unless=[1]), AppliesIf("decoding.beam_groups", unless=[1])


def _rename_static(value: Any) -> Any:
    """Read ``static``, which earlier versions called the built-in search, although it is a loop."""
    return "built_in" if value == "static" else value


class Decoding(Section):
    """How replies are generated; can be overridden when chatting."""

    method: Annotated[
        Literal["greedy", "beam", "sample"], LanguageModelsRequire("sample", "generates text by sampling")
    ] = "greedy"
    """the most probable token at each step, beam search, or random sampling"""
    n_best: Annotated[PositiveInt, AppliesIf(METHOD, "beam", "sample", silent=True), OF_SAMPLES, OF_SEVERAL] = 1
    """number of replies; with sample: number of samples"""
    beam_width: Annotated[int, Field(gt=0, le=1000), AppliesIf(METHOD, "beam", silent=True), OF_SAMPLES] = 10
    """number of hypotheses"""
    stop: Annotated[Literal["best_ended", "first_end"], OF_BEAM] = "best_ended"
    """when the beam search of an utterance ends: when no other hypothesis can overtake the first n_best, which have
    ended, or at the first end of any hypothesis in the beam, where the best hypotheses may be unfinished"""
    length_penalty: Annotated[float, Field(ge=0, le=10), OF_BEAM] = 0.0
    """divide scores by ((5 + tokens) / 6)^length_penalty, which favors longer replies"""
    beam_groups: Annotated[PositiveInt, OF_BEAM] = 1
    """number of groups for diverse beam search"""
    diversity_penalty: Annotated[float, Field(ge=0, le=100), OF_BEAM, OF_GROUPS] = 0.5
    """penalty in nats for each earlier group that chose the same token"""
    temperature: Annotated[float, Field(gt=0, le=100), OF_SAMPLING, OF_SEVERAL] = 1.0
    """divide logits by this; lower values make probable tokens more probable"""
    top_k: Annotated[PositiveInt | None, OF_SAMPLING] = None
    """sample from the k most probable tokens"""
    top_p: Annotated[Annotated[float, Field(gt=0, le=1)] | None, OF_SAMPLING, OF_SEVERAL] = None
    """sample from the most probable tokens whose probabilities add up to p"""
    seed: Annotated[Annotated[int, Field(ge=0, lt=2**31)] | None, OF_SAMPLING, OF_SEVERAL] = None
    """the same seed gives the same replies; null: different ones each time"""
    min_length: Annotated[int, Field(ge=0, le=10**4), OF_SAMPLES] = 0
    """minimum tokens of a reply"""
    no_repeat_ngram_size: Annotated[
        int,
        Field(ge=0, le=10**4),
        OF_SAMPLES,
        AppliesIf("model.decoder_steps", when=lambda c: c.decoding.no_repeat_ngram_size <= c.model.decoder_steps),
    ] = 0
    """n-grams of this many tokens may not occur twice in a reply; 0: no restriction"""
    repetition_penalty: Annotated[float, Field(ge=1, le=100), OF_SAMPLES] = 1.0
    """divide positive logits of tokens already in the reply by this, multiply negative ones"""
    unrolling: Annotated[Literal["built_in", "dynamic"] | None, BeforeValidator(_rename_static)] = None
    """greedy, beam: the built-in search, or tensorflow-addons' dynamic decoder; null: dynamic if model.unrolling is
    and the other options allow it"""
    rerank: Annotated[
        Literal["none", "anti_language_model", "bidirectional"],
        OF_BEAM,
        AppliesIf("decoding.beam_width", unless=[1]),
        AppliesIf("decoding.rerank_weight", when=lambda c: c.decoding.rerank_weight or c.decoding.length_penalty),
    ] = "none"
    """rerank hypotheses by mutual information, to avoid generic replies"""
    rerank_weight: Annotated[float, Field(ge=0, le=10), AppliesIf("decoding.rerank", unless=["none"])] = 0.5
    """weight of the language model, or of the backward model"""
    rerank_prefix_length: Annotated[PositiveInt, AppliesIf("decoding.rerank", "anti_language_model")] = 5
    """number of first tokens of a reply that are penalized"""
    backward_run: Annotated[
        FilePath | None,
        OF_BEAM,
        AppliesIf("decoding.rerank", "bidirectional", error="applies to rerank bidirectional only"),
    ] = None
    """a run trained with data.swap_source_target"""
    allow_unknown: bool = False
    """allow <unknown> in replies"""
    replace_unknown: Annotated[bool, AppliesIf("model.attention", unless=["none"])] = False
    """replace <unknown> with the source token with the highest attention weight"""
    lexicon: Annotated[FilePath | None, AppliesIf("decoding.replace_unknown", True)] = None
    """TSV of source word, target word and optional probability or count, whose entries replace <unknown>; words
    without an entry are copied"""

    def problems(self) -> Iterator[str]:
        available = {"greedy": 1, "beam": self.beam_width}.get(self.method, self.n_best)
        if self.n_best > available:
            yield (
                f"n_best is {self.n_best}, but {self.method} search has {available} "
                f"hypothes{'is' if available == 1 else 'es'}; use beam search with a beam_width of at least n_best"
            )
        if self.beam_width % self.beam_groups and self.beam_groups > 1:
            yield f"beam_width {self.beam_width} does not divide evenly into {self.beam_groups} beam_groups"
        if self.unrolling == "dynamic" and not self.supports_dynamic:
            yield (
                "unrolling dynamic supports only greedy and beam search with a length_penalty; remove the other "
                "options or use built_in"
            )
        if self.stop == "first_end" and (self.length_penalty or self.beam_groups > 1):
            other = "length_penalty" if self.length_penalty else "beam_groups"
            yield f"stop first_end ranks one beam by its log-probabilities; remove {other} or use best_ended"
        if self.rerank == "bidirectional" and self.backward_run is None:
            yield "rerank bidirectional requires backward_run, a run trained with data.swap_source_target"
        if self.replace_unknown and not self.allow_unknown:
            yield "replace_unknown requires allow_unknown"

    @property
    def supports_dynamic(self) -> bool:
        """Whether the dynamic decoder supports these options."""
        return (
            self.method != "sample"
            and self.stop == "best_ended"
            and self.beam_groups == 1
            and not (self.min_length or self.no_repeat_ngram_size or self.repetition_penalty != 1)
        )


OPTIONS_OF_METHOD = {
    method: [name for name, field in Decoding.model_fields.items() if condition in conditions(field)]
    for method, condition in (("beam", OF_BEAM), ("sample", OF_SAMPLING))
}
"""Options that apply to one method only. beam_width is allowed with any, as the default for beam search."""
