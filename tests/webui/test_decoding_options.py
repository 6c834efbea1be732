"""The decoding options of the web UI follow the fields of the configuration."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from pydantic import Field

from seq2seq_chat.config import AppliesIf, ConfigError, Decoding, Section, loading
from webui import decoding_options
from webui.limits import Limits

LIMITS = Limits(max_beam_width=50)


def test_every_decoding_setting_is_an_option() -> None:
    by_name = {option["name"]: option for option in decoding_options.decoding_options(LIMITS)}
    assert set(by_name) == set(Decoding.model_fields) - set(decoding_options.CONFIG_ONLY)
    for name, option in by_name.items():
        described = " ".join((Decoding.model_fields[name].description or "").split())
        assert described and described in option["description"]
        assert option["default"] == Decoding.model_fields[name].default
    assert by_name["method"]["kind"] == "choice"
    assert {"greedy", "beam"} <= set(by_name["method"]["choices"])
    width = by_name["beam_width"]
    assert (width["kind"], width["above"], width["maximum"], width["methods"]) == ("integer", 0, 50, ["beam"])
    assert width["description"] == "number of hypotheses"
    assert by_name["rerank_prefix_length"]["description"].startswith("rerank anti_language_model: number of first")
    assert by_name["temperature"]["description"].endswith("; no effect if decoding.top_k is 1")
    assert (by_name["n_best"]["methods"], by_name["seed"]["methods"]) == (["beam", "sample"], ["sample"])


OF_SAMPLING = AppliesIf("decoding.method", "sample", error="applies to sampling only")


class OtherDecoding(Section):
    """Decoding settings with fields of every plain type."""

    method: Literal["greedy", "beam", "sample"] = "greedy"
    n_best: int = Field(1, gt=0)
    beam_width: int = Field(10, gt=0)
    temperature: Annotated[float, OF_SAMPLING] = Field(1.0, gt=0, description="of the softmax")
    top_p: Annotated[float | None, OF_SAMPLING] = Field(None, gt=0, le=1)
    seed: Annotated[int | None, OF_SAMPLING] = None
    penalty: float = Field(0.0, ge=0, lt=2)
    order: Literal["first", "last"] = "first"
    strict: bool = False
    words: list[str] = []  # noqa: RUF012  pydantic copies it


@pytest.fixture
def other_decoding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding_options, "Decoding", OtherDecoding)
    monkeypatch.setattr(loading, "Decoding", OtherDecoding)


@pytest.mark.usefixtures("other_decoding")
def test_settings_of_plain_types_become_options() -> None:
    by_name = {option["name"]: option for option in decoding_options.decoding_options(LIMITS)}
    assert "words" not in by_name  # a list has no form control

    def values(name: str, *keys: str) -> tuple[Any, ...]:
        return tuple(by_name[name][key] for key in keys)

    assert values("temperature", "kind", "above", "optional", "methods") == ("number", 0, False, ["sample"])
    assert values("top_p", "kind", "above", "maximum", "optional") == ("number", 0, 1, True)
    assert values("seed", "kind", "default", "optional") == ("integer", None, True)
    assert values("penalty", "minimum", "below", "methods") == (0, 2, [])
    assert values("order", "kind", "choices", "methods") == ("choice", ["first", "last"], [])
    assert values("strict", "kind") == ("boolean",)
    assert values("method", "choices") == (["greedy", "beam", "sample"],)


@pytest.mark.usefixtures("other_decoding")
def test_optional_settings_accept_null() -> None:
    base: Any = OtherDecoding(method="sample", top_p=0.5)
    assert decoding_options.merge_decoding(base, {"top_p": None}, LIMITS).model_dump()["top_p"] is None
    assert decoding_options.merge_decoding(base, {}, LIMITS).model_dump()["top_p"] == 0.5


def test_missing_settings_come_from_the_run() -> None:
    base = Decoding(method="beam", beam_width=7, n_best=2)
    assert decoding_options.merge_decoding(base, {}, LIMITS) == base
    assert decoding_options.merge_decoding(base, {"n_best": 7}, LIMITS) == Decoding(
        method="beam", beam_width=7, n_best=7
    )


def test_conflicting_settings_of_the_run_give_way() -> None:
    base = Decoding(method="beam", beam_width=7, n_best=2)
    assert decoding_options.merge_decoding(base, {"method": "greedy"}, LIMITS).method == "greedy"
    assert decoding_options.merge_decoding(base, {"beam_width": 1}, LIMITS).n_best == 1
    with pytest.raises(ConfigError, match="n_best"):
        decoding_options.merge_decoding(base, {"method": "greedy", "n_best": 2}, LIMITS)


@pytest.mark.parametrize("name", ["backward_run", "lexicon"])
def test_requests_cannot_name_files_of_the_server(name: str) -> None:
    settings = {"rerank": "bidirectional", "method": "beam", "allow_unknown": True, "replace_unknown": True}
    base = Decoding(**settings, backward_run="back", lexicon="words.tsv")
    assert decoding_options.merge_decoding(base, {name: getattr(base, name), "min_length": 2}, LIMITS).min_length == 2
    for run, path in ((base, "/etc/passwd"), (base, None), (Decoding(), "/etc/passwd")):
        with pytest.raises(ConfigError, match=f"{name} can only be set in the run's configuration"):
            decoding_options.merge_decoding(run, {name: path}, LIMITS)


@pytest.mark.parametrize("changes", [{"beam_width": 51}, {"method": "beam", "beam_width": 50, "n_best": 51}])
def test_expensive_settings_are_rejected(changes: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="at most 50"):
        decoding_options.merge_decoding(Decoding(), changes, LIMITS)
    for huge in (1e400, 10**400):
        with pytest.raises(ConfigError):
            decoding_options.merge_decoding(Decoding(), {"beam_width": huge}, LIMITS)


@pytest.mark.parametrize(
    "base", [Decoding(), Decoding(method="beam", beam_width=3), Decoding(method="beam", beam_width=40, n_best=9)]
)
def test_default_settings_are_valid(base: Decoding) -> None:
    for method, settings in decoding_options.default_settings(base, LIMITS).items():
        chosen = decoding_options.merge_decoding(base, settings, LIMITS)
        assert chosen.method == method
        assert chosen.beam_width == base.beam_width
    n_best = decoding_options.default_settings(base, LIMITS)["beam"]["n_best"]
    assert n_best == (base.n_best if base.n_best > 1 else min(5, base.beam_width))
