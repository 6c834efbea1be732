"""The decoding settings that a user can change, derived from :class:`seq2seq_chat.config.Decoding`.

A new field of a plain type appears on the page with its default, bounds, the methods it applies to, and its
description, or a text in place of one that names other settings.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any, get_args

from seq2seq_chat.config import Config, ConfigError, Decoding, conditions, override_decoding
from webui.limits import Limits

METHOD = "decoding.method"  # the form shows a setting only with its methods
DEFAULT_N_BEST = 5  # hypotheses requested by the pages by default
CONFIG_ONLY = ("backward_run", "lexicon")  # paths, so requests cannot set them
BOUNDED = ("beam_width", "n_best")
FORM_TYPES = {"boolean", "integer", "number", "string"}
HELP = {
    "n_best": "how many replies are shown; a beam search finds at most its beam width",
    "beam_width": "how many hypotheses the search keeps at each step",
    "stop": "when the search ends: when nothing can overtake the best replies, or as soon as any reply has ended",
    "length_penalty": "favors longer replies: divides scores by ((5 + tokens) / 6) to the power of this; 0: off",
    "seed": "the same seed gives the same replies; empty: different ones each time",
    "repetition_penalty": "makes tokens that are already in the reply less probable; 1: off",
    "unrolling": "the program that searches; automatic: as in training, where the other options allow it",
}


def decoding_options(limits: Limits) -> list[dict[str, Any]]:
    """The decoding settings as fields of a form: name, kind, description, bounds, choices, methods.

    ``kind`` is boolean, integer, number, string or choice; ``optional`` fields may be null.
    """
    options = (_form_field(name, field) for name, field in decoding_schema(limits)["properties"].items())
    return [*filter(None, options)]


def decoding_schema(limits: Limits) -> dict[str, Any]:
    """The JSON schema of ``decoding`` in a request: no field is required, and expensive ones are bounded."""
    schema = Decoding.model_json_schema(ref_template="#/components/schemas/{model}")
    schema.pop("required", None)
    for name in CONFIG_ONLY:
        schema["properties"].pop(name, None)
    schema["description"] = "Decoding settings; the rest come from the run's configuration."
    for name, field in schema["properties"].items():
        field.pop("title", None)
        if name in BOUNDED:
            field["maximum"] = min(limits.max_beam_width, field.get("maximum", limits.max_beam_width))
    return schema


def merge_decoding(base: Decoding, changes: Mapping[str, Any], limits: Limits) -> Decoding:
    """Apply a user's changes to the decoding settings of a run.

    Settings of the run that conflict with the changes are reset to their defaults.

    Raises:
        ConfigError: A changed setting does not exist or is out of range, or changes conflict.
    """
    if not changes:
        return base
    for name in CONFIG_ONLY:
        if name in changes and changes[name] != getattr(base, name, None):
            raise ConfigError(f"decoding: {name} can only be set in the run's configuration")
    for name in BOUNDED:
        value = changes.get(name)
        if isinstance(value, (int, float)) and value > limits.max_beam_width:
            raise ConfigError(f"decoding: {name} may be at most {limits.max_beam_width} on this server")
    try:
        return override_decoding(base, **changes)
    except ConfigError:
        for fallback in ({"n_best": 1}, Decoding().model_dump(exclude={"method"})):
            with contextlib.suppress(ConfigError):
                return override_decoding(base, **{**fallback, **changes})
        raise


def requested_decoding(config: Config, changes: Mapping[str, Any], limits: Limits) -> Decoding:
    """The decoding settings of a run with the changes of a request; see :func:`merge_decoding`.

    Raises:
        ConfigError: The changes are invalid, or the model does not support them.
    """
    decoding = merge_decoding(config.decoding, changes, limits)
    if decoding.unrolling == "dynamic" and config.model.static_only:
        raise ConfigError(f"decoding.unrolling dynamic does not support model.{config.model.static_only}; use built_in")
    return decoding


def single_reply(config: Config, changes: Mapping[str, Any], limits: Limits) -> Decoding:
    """The settings for one reply that is the same every time: sampling has a seed. Raises ConfigError."""
    decoding = requested_decoding(config, {**changes, "n_best": 1}, limits)
    if decoding.method == "sample" and decoding.seed is None:
        return decoding.model_copy(update={"seed": config.seed})
    return decoding


def default_settings(base: Decoding, limits: Limits) -> dict[str, dict[str, Any]]:
    """The initial settings of a page by method: the run's, but with several hypotheses."""
    defaults = {}
    for method in get_args(Decoding.model_fields["method"].annotation):
        with contextlib.suppress(ConfigError):
            decoding = merge_decoding(base, {"method": method}, limits)
            if decoding.n_best == 1:
                n_best = min(DEFAULT_N_BEST, decoding.beam_width)
                with contextlib.suppress(ConfigError):
                    decoding = merge_decoding(base, {"method": method, "n_best": n_best}, limits)
            defaults[method] = decoding.model_dump(mode="json")
    return defaults


def _form_field(name: str, field: Mapping[str, Any]) -> dict[str, Any] | None:
    """A field of the form; None if its type has no form control."""
    variants = [variant for variant in field.get("anyOf", [field]) if variant.get("type") != "null"]
    if len(variants) != 1:
        return None
    (type_,) = variants
    setting = Decoding.model_fields[name]
    choices = type_.get("enum", [type_["const"]] if "const" in type_ else None)
    if not choices and type_.get("type") not in FORM_TYPES:
        return None
    return {
        "name": name,
        "kind": "choice" if choices else type_["type"],
        "description": HELP.get(name) or " ".join((setting.description or "").split()),
        "default": field.get("default"),
        "optional": len(field.get("anyOf", [])) > 1,
        "choices": choices,
        "minimum": type_.get("minimum", field.get("minimum")),
        "above": type_.get("exclusiveMinimum"),
        "maximum": min((m for m in (type_.get("maximum"), field.get("maximum")) if m is not None), default=None),
        "below": type_.get("exclusiveMaximum"),
        "methods": _methods(name),
    }


def _methods(name: str) -> list[str]:
    """The methods to which a setting applies, or the setting on which it depends; none: all of them."""
    applies = {each.setting: each for each in conditions(Decoding.model_fields[name])}
    if METHOD in applies:
        return [*applies[METHOD].values]
    others = (path.removeprefix("decoding.") for path in applies)
    return [method for other in others if other in Decoding.model_fields for method in _methods(other)]
