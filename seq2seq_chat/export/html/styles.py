"""The part of a style sheet that a page uses."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

_COMMENT = re.compile(r"/\*(?!!).*?\*/", re.DOTALL)  # but not one with a license
_NOT = re.compile(r":not\([^()]*\)")
_CLASS = re.compile(r"\.([a-zA-Z][\w-]*)")
_COMMA = re.compile(r",(?![^(]*\))")  # outside of parentheses


def used_rules(css: str, names: Collection[str]) -> str:
    """The rules of a style sheet that apply to a page whose classes are all among ``names``."""
    kept = []
    for prelude, body in _rules(_COMMENT.sub("", css)):
        if body is None or prelude.startswith("@font-face"):
            kept.append(prelude if body is None else f"{prelude}{{{body}}}")
        elif prelude.startswith("@keyframes"):
            if prelude.split()[-1] in names:
                kept.append(f"{prelude}{{{body}}}")
        elif prelude.startswith("@"):
            if inner := used_rules(body, names):
                kept.append(f"{prelude}{{{inner}}}")
        elif selectors := [selector for selector in _COMMA.split(prelude) if _is_used(selector, names)]:
            kept.append(f"{','.join(selectors)}{{{body}}}")
    return "".join(kept)


def _is_used(selector: str, names: Collection[str]) -> bool:
    return all(name in names for name in _CLASS.findall(_NOT.sub("", selector)))


def _rules(css: str) -> Iterator[tuple[str, str | None]]:
    """What is before the braces of each rule, and what is between them; None for a statement without braces."""
    position = 0
    while match := re.compile(r"[^{};]*[{;]").match(css, position):
        prelude, end = match[0][:-1].strip(), match.end()
        if match[0][-1] == ";":
            yield f"{prelude};", None
        else:
            depth = 1
            while depth:
                brace = re.compile(r"[{}]").search(css, end)
                if brace is None:
                    raise ValueError(f"no closing brace after {prelude}")
                depth += 1 if brace[0] == "{" else -1
                end = brace.end()
            yield prelude, css[match.end() : end - 1]
        position = end
