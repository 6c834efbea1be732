"""The decoding options of the web UI follow the fields of the configuration."""

import re
from typing import Any

import pytest

from seq2seq_chat.config import ConfigError, Decoding
from webui import decoding_options
from webui.limits import Limits

LIMITS = Limits(max_beam_width=50)


def test_every_decoding_setting_is_an_option() -> None:
    by_name = {option["name"]: option for option in decoding_options.decoding_options(LIMITS)}
    assert set(by_name) == set(Decoding.model_fields) - set(decoding_options.CONFIG_ONLY)
    for name, option in by_name.items():
        assert option["description"]
        assert not re.search(r"_|\bnull\b|\w\.\w", option["description"])  # names of settings
        assert option["default"] == Decoding.model_fields[name].default
    assert by_name["top_k"]["description"] == "sample from the k most probable tokens"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("method", {"kind": "choice", "choices": ["greedy", "beam", "sample"], "methods": []}),
        ("unrolling", {"kind": "choice", "choices": ["built_in", "dynamic"], "optional": True, "default": None}),
        ("beam_width", {"kind": "integer", "above": 0, "maximum": 50, "methods": ["beam"], "choices": None}),
        ("n_best", {"kind": "integer", "maximum": 50, "methods": ["beam", "sample"]}),
        ("temperature", {"kind": "number", "above": 0, "optional": False, "methods": ["sample"]}),
        ("top_p", {"kind": "number", "above": 0, "maximum": 1, "optional": True}),
        ("seed", {"kind": "integer", "minimum": 0, "below": 2**31, "optional": True, "methods": ["sample"]}),
        ("repetition_penalty", {"kind": "number", "minimum": 1, "maximum": 100, "methods": []}),
        ("rerank_weight", {"kind": "number", "methods": ["beam"]}),  # as of the setting on which it depends
        ("allow_unknown", {"kind": "boolean", "methods": []}),
    ],
)
def test_the_form_of_a_setting(name: str, expected: dict[str, Any]) -> None:
    (option,) = (one for one in decoding_options.decoding_options(LIMITS) if one["name"] == name)
    assert {key: option[key] for key in expected} == expected


def test_missing_settings_come_from_the_run() -> None:
    base = Decoding(method="sample", top_p=0.5, n_best=2)
    assert decoding_options.merge_decoding(base, {}, LIMITS) == base
    changed = decoding_options.merge_decoding(base, {"n_best": 7, "top_p": None}, LIMITS)
    assert changed == Decoding(method="sample", n_best=7)


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
