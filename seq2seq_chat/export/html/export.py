"""One HTML file with a model and the page to talk to it, which needs no server and no network."""

from __future__ import annotations

import base64
import hashlib
import json
import logging
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from seq2seq_chat.config import LABELS, Decoding
from seq2seq_chat.engines.tensorflow.engine import load_trained_model
from seq2seq_chat.export import empty_folder, new_folder
from seq2seq_chat.export.html.model_file import JAVASCRIPT, pack_model
from seq2seq_chat.runs.model_card import write_model_card
from seq2seq_chat.runs.run import LATEST, Run

PAGE = "index.html"
PAGES = {"conversation": "chat", "translation": "translate", "language_model": "write"}
SETTINGS = (
    *("method", "n_best", "beam_width", "stop", "length_penalty", "beam_groups", "diversity_penalty"),
    *("temperature", "top_k", "top_p", "seed"),
    *("min_length", "no_repeat_ngram_size", "repetition_penalty", "allow_unknown"),
)
"""The decoding settings of the page: those that the searches in JavaScript have."""
SHOWN_CLASSES = ("show", "showing", "hiding", "fade", "offcanvas-backdrop", "dropdown-menu-end")
"""Classes that the scripts of Bootstrap add."""

logger = logging.getLogger(__name__)

_PAGE = Path(__file__).parent / "page"
_SOURCE_MAP = re.compile(r"\n?(?://#|/\*#) sourceMappingURL=\S+(?: \*/)?\s*$")


class Assets(NamedTuple):
    """What a page takes from the web UI."""

    templates: Path  # folder of the Jinja templates
    static: Path  # folder of the style sheets and icons; its folder js has the scripts
    bootstrap: Path  # folder of Bootstrap's styles and scripts, as Bootstrap-Flask has it
    limits: Any  # which the templates read
    options: list[dict[str, Any]]  # fields of the form for decoding settings
    default_settings: Callable[[Decoding], dict[str, dict[str, Any]]]  # of a run, by method: what the form shows


def export_page(run: Run, folder: str | Path, assets: Assets, snapshot: str | None = None) -> Path:
    """Write the page for the model of a run as the only file of a folder, atomically.

    Logs a warning for each difference from the replies of ``chat``.

    Args:
        folder: The output folder; must be empty or not exist.
        assets: Templates, styles and scripts of the web UI.
        snapshot: Name of the snapshot; None for the newest weights.

    Returns:
        The file.

    Raises:
        UserError: The folder exists and is not empty, or cannot be written; the run cannot be loaded, or its model
            does not fit on a page.
    """
    folder = empty_folder(folder)
    for difference in differences(run.config.decoding):
        logger.warning("%s", difference)
    trained = load_trained_model(run, snapshot)
    about = {"step": trained.step, "run": _describe(run, snapshot or LATEST, trained.step, assets)}
    model = base64.b85encode(pack_model(trained, run.config, about, run.name)).replace(b"<", b",").decode()
    weights = hashlib.sha256(b"".join(variable.numpy().tobytes() for variable in trained.model.trainable_variables))
    page = _render(run, model, f"{run.name}:{weights.hexdigest()[:16]}", assets)
    with new_folder(folder) as temporary:
        (temporary / PAGE).write_text(page, encoding="utf-8")
        write_model_card(run, temporary)
    return folder / PAGE


def _describe(run: Run, snapshot: str, step: int, assets: Assets) -> dict[str, Any]:
    """What the page's scripts read of a run, as in the answers of the server; without paths and text of its corpora."""
    decoding = run.config.decoding
    return {
        "name": run.name,
        "task": run.config.task,
        "state": "finished",
        "step": step,
        "newest_step": step,
        "context_turns": run.config.data.context_turns,
        "snapshots": [snapshot],
        "samples": [],
        "config": {"decoding": _settings(decoding.model_dump(mode="json"))},
        "decoding": {
            "options": [option for option in assets.options if option["name"] in SETTINGS],
            "defaults": {name: _settings(values) for name, values in assets.default_settings(decoding).items()},
            "method": decoding.method,
        },
    }


def _settings(decoding: dict[str, Any]) -> dict[str, Any]:
    """The decoding settings that the page has."""
    return {name: decoding[name] for name in SETTINGS}


def differences(decoding: Decoding) -> list[str]:
    """A sentence for each setting of a run that the page does not have."""
    defaults = Decoding().model_dump()
    return [
        f"the page does not support decoding.{name}, which is {json.dumps(value)} in the run"
        for name, value in decoding.model_dump(mode="json").items()
        if name not in (*SETTINGS, "unrolling") and value != defaults[name]
    ]


def _render(run: Run, model: str, owner: str, assets: Assets) -> str:
    """The page; ``owner`` names what the browser keeps of it, apart from what it keeps of other runs and weights."""
    page = PAGES[run.config.task]
    script = bundle(page, [_PAGE, assets.static / "js"])
    worker = f'const startWorker = () => {{\n"use strict";\n{bundle("worker", [JAVASCRIPT])}}};\n'
    scripts = [
        *(_read(assets.bootstrap / name) for name in ("umd/popper.min.js", "js/bootstrap.min.js")),
        f'"use strict";\n(async () => {{\n{worker}{script}}})();\n',
    ]
    head_scripts = [_read(_PAGE / "startup.js"), _read(assets.static / "js" / "theme.js")]
    loader = FileSystemLoader([_PAGE, assets.templates])
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined)
    template = environment.get_template(f"{page}.html")
    content = {
        "layout": "layout.html",
        "owner": owner,
        "title": re.sub(r"^\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d_", "", run.name),
        "icon": f"data:image/svg+xml,{quote(_read(assets.static / 'icon.svg'))}",
        "labels": {task: names._asdict() for task, names in LABELS.items()},
        "limits": assets.limits,
        "head_scripts": head_scripts,
        "scripts": scripts,
    }
    markup = template.render(content, page_labels=None, policy="", styles="", model="")
    styles = _styles(page, markup + script, assets)
    policy = _policy([*head_scripts, *scripts], styles)
    return template.render(content, page_labels=None, policy=policy, styles=styles, model=model)


def _styles(page: str, markup: str, assets: Assets) -> str:
    """The rules of Bootstrap and of our style sheets for the classes in HTML and scripts."""
    ours = {"chat": ["chat.css"], "translate": ["translate.css"], "write": ["translate.css", "write.css"]}[page]
    names = {*re.findall(r"[\w-]+", markup), *SHOWN_CLASSES}
    files = [
        assets.bootstrap / "css" / "bootstrap.min.css",
        *(assets.static / name for name in ("style.css", "attention.css", *ours)),
        _PAGE / "layout.css",
    ]
    return "\n".join(used_rules(_read(file), names) for file in files)


def _policy(scripts: list[str], styles: str) -> str:
    """The content security policy: these scripts and styles only, a worker made of them, and no network."""
    hashes = " ".join(map(_hash, scripts))
    return (  # images are icons of ours and of Bootstrap
        f"default-src 'none'; script-src {hashes}; style-src {_hash(styles)}; img-src data:; worker-src blob:; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _read(file: Path) -> str:
    return _SOURCE_MAP.sub("", file.read_text(encoding="utf-8"))


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
    scripts, exports = ["const modules = {};\n"], dict[str, set[str]]()

    def add(name: str) -> None:
        """Add a module after those that it imports."""
        if name in exports:
            return
        file = next(file for folder in folders if (file := folder / f"{name}.js").is_file())
        text = file.read_text(encoding="utf-8")
        for match in _IMPORT.finditer(text):
            source = match["module"]
            add(source)
            imported = {part.split(" as ")[0].strip() for part in (match["names"] or "").split(",")} - {""}
            if missing := imported - exports[source]:
                raise ValueError(f"{file} imports {', '.join(sorted(missing))}, which {source}.js does not export")
        exports[name] = {match["name"] for match in _EXPORT.finditer(text)}
        body = _EXPORT.sub("", _IMPORT.sub(_destructure, text))
        wait, is_async = ("await ", "async ") if _AWAIT.search(text) else ("", "")
        result = f"return {{ {', '.join(sorted(exports[name]))} }};"
        scripts.append(f"// {name}.js\nmodules.{name} = {wait}({is_async}() => {{\n{body}{result}\n}})();\n")

    add(entry)
    return "".join(scripts)


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
