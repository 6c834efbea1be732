"""The form of decoding options follows the configuration, whatever fields that has."""

from __future__ import annotations

from typing import Any, Literal, Optional

import pytest
from pydantic import Field

from seq2seq_chat.config import ConfigError, Decoding, Section, reading
from webui import options
from webui.limits import Limits

LIMITS = Limits(beam_width=50)


def test_every_setting_of_decoding_can_be_chosen() -> None:
    found = {option["name"]: option for option in options.options(LIMITS)}
    assert set(found) == set(Decoding.model_fields) - set(options.NOT_OFFERED)
    for name, option in found.items():
        described = Decoding.model_fields[name].description
        assert option["description"] and described is not None and described.endswith(option["description"])
        assert option["default"] == Decoding.model_fields[name].default
    assert found["method"]["kind"] == "choice"
    assert {"greedy", "beam"} <= set(found["method"]["choices"])
    width = found["beam_width"]
    assert (width["kind"], width["above"], width["maximum"], width["methods"]) == ("integer", 0, 50, ["beam"])


class Later(Section):
    """Decoding as it may be one day."""

    method: Literal["greedy", "beam", "sample"] = "greedy"
    n_best: int = Field(1, gt=0)
    beam_width: int = Field(10, gt=0)
    temperature: float = Field(1.0, gt=0, description="how bold")
    top_p: Optional[float] = Field(None, gt=0, le=1)
    seed: Optional[int] = None
    penalty: float = Field(0.0, ge=0, lt=2, json_schema_extra={"methods": ["beam"]})
    order: Literal["first", "last"] = "first"
    strict: bool = False
    words: list[str] = []  # noqa: RUF012  pydantic copies it


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(options, "Decoding", Later)
    monkeypatch.setattr(reading, "Decoding", Later)
    monkeypatch.setattr(reading, "OPTIONS_OF_METHOD", {"sample": ("temperature", "top_p", "seed")})


@pytest.mark.usefixtures("later")
def test_new_settings_of_plain_types_appear_by_themselves() -> None:
    found = {option["name"]: option for option in options.options(LIMITS)}
    assert "words" not in found  # no field of a form asks for a list

    def told(name: str, *keys: str) -> tuple[Any, ...]:
        return tuple(found[name][key] for key in keys)

    assert told("temperature", "kind", "above", "optional", "methods") == ("number", 0, False, ["sample"])
    assert told("top_p", "kind", "above", "maximum", "optional") == ("number", 0, 1, True)
    assert told("seed", "kind", "default", "optional") == ("integer", None, True)
    assert told("penalty", "minimum", "below", "methods") == (0, 2, ["beam"])
    assert told("order", "kind", "choices", "methods") == ("choice", ["first", "last"], [])
    assert told("strict", "kind") == ("boolean",)
    assert told("method", "choices") == (["greedy", "beam", "sample"],)


@pytest.mark.usefixtures("later")
def test_null_is_a_value_of_optional_settings() -> None:
    base: Any = Later(method="sample", top_p=0.5)
    assert options.choose(base, {"top_p": None}, LIMITS).model_dump()["top_p"] is None
    assert options.choose(base, {}, LIMITS).model_dump()["top_p"] == 0.5


def test_what_is_left_out_is_as_in_the_run() -> None:
    base = Decoding(method="beam", beam_width=7, n_best=2)
    assert options.choose(base, {}, LIMITS) == base
    assert options.choose(base, {"n_best": 7}, LIMITS) == Decoding(method="beam", beam_width=7, n_best=7)


def test_a_number_of_replies_nobody_asked_for_is_no_obstacle() -> None:
    base = Decoding(method="beam", beam_width=7, n_best=2)
    assert options.choose(base, {"method": "greedy"}, LIMITS).method == "greedy"
    assert options.choose(base, {"beam_width": 1}, LIMITS).n_best == 1
    with pytest.raises(ConfigError, match="n_best"):
        options.choose(base, {"method": "greedy", "n_best": 2}, LIMITS)


@pytest.mark.parametrize("changes", [{"beam_width": 51}, {"method": "beam", "beam_width": 50, "n_best": 51}])
def test_what_costs_too_much_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="at most 50"):
        options.choose(Decoding(), changes, LIMITS)
    for huge in (1e400, 10**400):
        with pytest.raises(ConfigError):
            options.choose(Decoding(), {"beam_width": huge}, LIMITS)


@pytest.mark.parametrize(
    "base", [Decoding(), Decoding(method="beam", beam_width=3), Decoding(method="beam", beam_width=40, n_best=9)]
)
def test_a_page_starts_from_settings_that_work(base: Decoding) -> None:
    for method, settings in options.defaults(base, LIMITS).items():
        chosen = options.choose(base, settings, LIMITS)
        assert chosen.method == method
        assert chosen.beam_width == base.beam_width
    shown = options.defaults(base, LIMITS)["beam"]["n_best"]
    assert shown == (base.n_best if base.n_best > 1 else min(5, base.beam_width))
