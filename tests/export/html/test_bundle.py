"""Bundling of modules, and the rules of a style sheet that a page uses."""

from collections.abc import Callable
from pathlib import Path

import pytest

from seq2seq_chat.export.html.export import bundle, used_rules

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write modules, given by name, into a folder."""

    def write_modules(folder: str, **modules: str) -> Path:
        (tmp_path / folder).mkdir()
        for name, text in modules.items():
            (tmp_path / folder / f"{name}.js").write_text(text, encoding="utf-8")
        return tmp_path / folder

    return write_modules


def test_modules_in_the_order_in_which_they_need_each_other(write: Write) -> None:
    folder = write(
        "a",
        page='import { one, Two as Second } from "./base.js";\nimport "./other.js";\nconsole.log(one, Second);\n',
        other='import { one } from "./base.js";\nexport async function* three() {}\nawait one;\n',
        base="export const one = 1;\nexport class Two {}\n",
    )
    assert bundle("page", [folder]) == (
        "const modules = {};\n"
        "// base.js\nmodules.base = (() => {\nconst one = 1;\nclass Two {}\nreturn { Two, one };\n})();\n"
        "// other.js\nmodules.other = await (async () => {\nconst { one } = modules.base;\nasync function* three() {}\n"
        "await one;\nreturn { three };\n})();\n"
        "// page.js\nmodules.page = (() => {\nconst { one, Two: Second } = modules.base;\nconsole.log(one, Second);\n"
        "return {  };\n})();\n"
    )


def test_the_first_folder_with_a_module_has_it(write: Write) -> None:
    first = write("first", api="export const x = 1;\n")
    second = write("second", api="export const x = 2;\n", page='import { x } from "./api.js";\n')
    script = bundle("page", [first, second])
    assert "const x = 1;" in script and "const x = 2;" not in script


def test_an_import_of_what_is_not_exported_is_an_error(write: Write) -> None:
    folder = write("a", page='import { one, two } from "./base.js";\n', base="export const one = 1, two = 2;\n")
    with pytest.raises(ValueError, match=r"page\.js imports two, which base\.js does not export"):
        bundle("page", [folder])


CSS = """@charset "UTF-8";/*! license */
:root{--x:1px}
.used,.unused{color:red}/* a comment */
.unused .used{color:blue}
button:not(.unused):hover{top:0}
.used:is(.unused,.used){left:0}
@media (min-width:1px){.unused{top:1px}.used::after{content:"."}}
@media print{.unused{top:1px}}
@keyframes unused{to{top:1px}}
@keyframes used{from{top:1px}to{top:2px}}
"""


def test_only_used_rules_are_kept() -> None:
    assert used_rules(CSS, {"used"}) == (
        '@charset "UTF-8";/*! license */\n'
        ":root{--x:1px}"
        ".used{color:red}"
        "button:not(.unused):hover{top:0}"
        '@media (min-width:1px){.used::after{content:"."}}'
        "@keyframes used{from{top:1px}to{top:2px}}"
    )


def test_a_rule_without_an_end_is_an_error() -> None:
    with pytest.raises(ValueError, match="no closing brace after a"):
        used_rules("a{color:red", set())
