"""Several JavaScript modules as one script, and the part of a style sheet that a page uses."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

_IMPORT = re.compile(r'^import (?:\{ (?P<names>[^}]+) \} from )?"\./(?P<module>\w+)\.js";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function\*?|class|const) (?P<name>\w+))", re.MULTILINE)
_AWAIT = re.compile(r"^(?:const \w+ = )?await ", re.MULTILINE)
_COMMENT = re.compile(r"/\*(?!!).*?\*/", re.DOTALL)  # but not one with a license
_NOT = re.compile(r":not\([^()]*\)")
_CLASS = re.compile(r"\.([a-zA-Z][\w-]*)")
_COMMA = re.compile(r",(?![^(]*\))")  # outside of parentheses


def bundle(entry: str, folders: Sequence[Path]) -> str:
    """A script with a module and all modules that it imports, each a function that returns what it exports.

    Supports what our modules use: named imports of files in the same folder, and exports of functions, classes and
    constants where these are defined.

    Args:
        entry: The name of the module, without ``.js``.
        folders: Where modules are looked for, in this order.

    Raises:
        ValueError: A module imports a name that no such export defines.
    """
    modules: dict[str, _Module] = {}
    _add(entry, folders, modules)
    return "".join(["const modules = {};\n", *(module.script for module in modules.values())])


class _Module(NamedTuple):
    script: str
    exports: set[str]


def _add(name: str, folders: Sequence[Path], modules: dict[str, _Module]) -> None:
    """Add a module after those that it imports."""
    if name in modules:
        return
    file = next(file for folder in folders if (file := folder / f"{name}.js").is_file())
    text = file.read_text(encoding="utf-8")
    for match in _IMPORT.finditer(text):
        _add(match["module"], folders, modules)
        imported = {part.split(" as ")[0].strip() for part in (match["names"] or "").split(",")} - {""}
        if missing := imported - modules[match["module"]].exports:
            raise ValueError(f"{file} imports {', '.join(sorted(missing))}, which {match['module']}.js does not export")
    exports = {match["name"] for match in _EXPORT.finditer(text)}
    body = _EXPORT.sub("", _IMPORT.sub(_destructure, text))
    wait, is_async = ("await ", "async ") if _AWAIT.search(text) else ("", "")
    result = f"return {{ {', '.join(sorted(exports))} }};"
    script = f"// {name}.js\nmodules.{name} = {wait}({is_async}() => {{\n{body}{result}\n}})();\n"
    modules[name] = _Module(script, exports)


def _destructure(match: re.Match[str]) -> str:
    """The names of an import as constants."""
    if match["names"] is None:
        return ""
    return f"const {{ {match['names'].replace(' as ', ': ')} }} = modules.{match['module']};\n"


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
