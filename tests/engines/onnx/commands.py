"""Commands in processes that can import only the packages that an exported model requires."""

from __future__ import annotations

import functools
import subprocess
import sys
from importlib import metadata

from packaging.requirements import Requirement

from seq2seq_chat.config import Config
from seq2seq_chat.export.onnx import REQUIREMENTS, requirements
from tests.random_runs import small_config

WITHOUT_OTHER_PACKAGES = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {modules!r}:
            raise ModuleNotFoundError(f"{{name}} is not installed", name=name)

sys.meta_path.insert(0, Missing())
from seq2seq_chat.cli import main
main()
"""


def installed(file: str, config: Config | None = None) -> set[str]:
    """The packages that `pip install` installs for a list of requirements."""
    lists = requirements(config or small_config())
    wanted = lists[REQUIREMENTS].splitlines() + (lists[file].splitlines()[1:] if file != REQUIREMENTS else [])
    names: set[str] = set()
    while wanted:
        requirement = Requirement(wanted.pop())
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        name = metadata.metadata(requirement.name)["Name"]
        if name not in names:
            names.add(name)
            wanted += metadata.requires(name) or []
    return names


@functools.cache
def modules() -> dict[str, list[str]]:
    """The packages that have each module."""
    return dict(metadata.packages_distributions())


def command(*arguments: object, file: str = REQUIREMENTS, config: Config | None = None) -> list[str]:
    """A command that can import only what a list requires."""
    packages = installed(file, config) | {"seq2seq-chat"}
    missing = {name for name, distributions in modules().items() if not packages & {*distributions}}
    assert {"tensorflow", "keras", "onnx", "pandas"} <= missing
    return [sys.executable, "-c", WITHOUT_OTHER_PACKAGES.format(modules=missing), *map(str, arguments)]


def run(
    *arguments: object, stdin: str = "", file: str = REQUIREMENTS, config: Config | None = None
) -> subprocess.CompletedProcess[str]:
    line = command(*arguments, file=file, config=config)
    return subprocess.run(line, input=stdin, text=True, capture_output=True, check=False)
