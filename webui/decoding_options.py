"""How a reply is searched, as a form: made from the fields of :class:`seq2seq_chat.config.Decoding`, whatever they are.

A new field of a plain type appears on the page with its description, default and limits. Which fields matter for which
method is told by the field itself, with ``json_schema_extra={"methods": ["beam"]}``, or else by :data:`METHODS`.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from typing import Any, Optional

from seq2seq_chat.config import OPTIONS_OF_METHOD, ConfigError, Decoding, changed_decoding
from webui.limits import Limits

METHODS = {  # the fields of a method, where the field does not say so itself; all others are shown folded
    "n_best": ["beam", "sample"],
    "beam_width": ["beam"],
    **{name: [method] for method, names in OPTIONS_OF_METHOD.items() for name in names},
}
SHOWN = 5  # hypotheses that a page asks for, to show what else might have been said
NOT_OFFERED = ("backward_run",)  # names a run by its path, which is for the configuration to say, not for visitors
KINDS = {"boolean", "integer", "number", "string"}


def options(limits: Limits) -> list[dict[str, Any]]:
    """The fields of a way of decoding: name, kind, meaning, limits, choices, and the methods they are for.

    ``kind`` is boolean, integer, number, string or choice; ``optional`` fields may be null.
    """
    schema = decoding_schema(limits)
    found = [_option(name, field) for name, field in schema["properties"].items()]
    return [option for option in found if option is not None]


def decoding_schema(limits: Limits) -> dict[str, Any]:
    """The JSON schema of ``decoding`` in a request: no field is required, and what costs too much is limited."""
    schema = Decoding.model_json_schema(ref_template="#/components/schemas/{model}")
    schema.pop("required", None)
    for name in NOT_OFFERED:
        schema["properties"].pop(name, None)
    schema["description"] = "How the reply is searched; what is left out is as in the run's configuration."
    for name, field in schema["properties"].items():
        field.pop("title", None)
        if name in ("beam_width", "n_best"):
            field["maximum"] = min(limits.beam_width, field.get("maximum", limits.beam_width))
    return schema


def choose(base: Decoding, changes: Mapping[str, Any], limits: Limits) -> Decoding:
    """The way of decoding a visitor asks for: a run's own with some settings changed.

    What the run's own way of decoding sets, and the visitor did not, does not stand in the way of another method.

    Raises:
        ConfigError: a setting does not exist, is out of range, or the settings do not fit together.
    """
    for name in NOT_OFFERED:
        if name in changes and changes[name] != getattr(base, name, None):
            raise ConfigError(f"decoding: {name} is for the run's configuration to say, and not for a request")
    for name in ("beam_width", "n_best"):
        value = changes.get(name)
        if isinstance(value, (int, float)) and value > limits.beam_width:
            raise ConfigError(f"decoding: {name} may be at most {limits.beam_width} on this server")
    try:
        return changed_decoding(base, changes)
    except ConfigError:
        for instead in ({"n_best": 1}, Decoding().model_dump(exclude={"method"})):
            with contextlib.suppress(ConfigError):
                return changed_decoding(base, {**instead, **changes})
        raise


def defaults(base: Decoding, limits: Limits) -> dict[str, dict[str, Any]]:
    """For each method the settings a page starts from: the run's own, and a few hypotheses more to look at."""
    found = {}
    for method in _methods():
        with contextlib.suppress(ConfigError):
            chosen = choose(base, {"method": method}, limits)
            if chosen.n_best == 1:
                width = min(SHOWN, chosen.beam_width)
                with contextlib.suppress(ConfigError):
                    chosen = choose(base, {"method": method, "n_best": width}, limits)
            found[method] = chosen.model_dump(mode="json")
    return found


def _methods() -> list[str]:
    field = Decoding.model_json_schema()["properties"]["method"]
    return list(field.get("enum", [field.get("const", field.get("default"))]))


def _option(name: str, field: Mapping[str, Any]) -> Optional[dict[str, Any]]:
    """A field of the form; None for one of a type that no form can ask for."""
    variants = [variant for variant in field.get("anyOf", [field]) if variant.get("type") != "null"]
    if len(variants) != 1:
        return None
    (type_,) = variants
    choices = type_.get("enum", [type_["const"]] if "const" in type_ else None)
    kind = "choice" if choices else type_.get("type")
    if kind not in KINDS | {"choice"}:
        return None
    return {
        "name": name,
        "kind": kind,
        "description": re.sub(r"^[a-z]+: ", "", field.get("description", "")),  # "beam: …" stands with beam search
        "default": field.get("default"),
        "optional": len(field.get("anyOf", [])) > 1,
        "choices": choices,
        "minimum": type_.get("minimum", field.get("minimum")),
        "above": type_.get("exclusiveMinimum"),
        "maximum": min((m for m in (type_.get("maximum"), field.get("maximum")) if m is not None), default=None),
        "below": type_.get("exclusiveMaximum"),
        "methods": field.get("methods", METHODS.get(name, [])),
    }
