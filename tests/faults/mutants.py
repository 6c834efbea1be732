"""Run the tests of a package on a sample of the mutants that cosmic-ray makes of its code, and print the survivors.

``PYTHONPATH=FOLDER python -m tests.faults.mutants search text metrics``, with cosmic-ray in FOLDER. A survivor is code
that no test needs: test what it promises, simplify it, or know why the two are equal.
"""

from __future__ import annotations

import ast
import os
import random
import shlex
import sys
import tempfile
import time
from pathlib import Path

from cosmic_ray.commands.init import init
from cosmic_ray.modules import find_modules
from cosmic_ray.mutating import mutate_and_test, mutate_code
from cosmic_ray.plugins import get_operator
from cosmic_ray.work_db import WorkDB
from cosmic_ray.work_item import MutationSpec

from tests.faults.run import copy_repository

SAMPLE, SEED = 60, 1
TEST_LIMIT, PACKAGE_LIMIT = 120, 1200  # seconds


def code_of(text: str) -> str | None:
    """What a module does, whatever its annotations are; None if it is not Python."""
    try:
        tree = ast.parse(text)
    except SyntaxError:  # cosmic-ray takes some commas and stars of signatures for operators
        return None
    for node in ast.walk(tree):
        for field in ("annotation", "returns"):
            if getattr(node, field, None) is not None:
                setattr(node, field, ast.Constant(None))
    return ast.dump(tree)


def sample_mutants(package: Path) -> list[MutationSpec]:
    """Some of the mutants of a package, the same at every call."""
    with tempfile.TemporaryDirectory() as folder:
        database = WorkDB(str(Path(folder) / "mutants.sqlite"), WorkDB.Mode.create)
        init(sorted(find_modules([package])), database, {})
        mutants = [mutant for item in database.work_items for mutant in item.mutations]
        database.close()
    mutants.sort(key=lambda mutant: (mutant.module_path, mutant.operator_name, mutant.occurrence))
    random.Random(SEED).shuffle(mutants)
    sample: list[MutationSpec] = []
    while mutants and len(sample) < SAMPLE:
        mutant = mutants.pop()
        text = mutant.module_path.read_text(encoding="utf-8")
        changed = mutate_code(text, get_operator(mutant.operator_name)(), mutant.occurrence)
        if changed is not None and code_of(changed) not in (None, code_of(text)):
            sample.append(mutant)
    return sample


def try_mutants(package: str) -> None:
    """Run the tests of a package on its mutants in a copy, which is the working directory."""
    options = "-x -q -p no:cacheprovider -p no:xdist"
    command = f"{shlex.quote(sys.executable)} -m pytest {options} tests/{package}"
    tried, survived, start = 0, 0, time.monotonic()
    for mutant in sample_mutants(Path("seq2seq_chat") / package):
        if time.monotonic() - start > PACKAGE_LIMIT:
            break
        result = mutate_and_test([mutant], command, TEST_LIMIT)
        tried += 1
        if not result.is_killed:
            survived += 1
            print(result.diff, flush=True)
    print(f"{package}: {survived} of {tried} mutants survived, {time.monotonic() - start:.0f} s", flush=True)


def main(packages: list[str]) -> None:
    """Try the mutants of some packages."""
    with tempfile.TemporaryDirectory(prefix="mutants_") as folder:
        copy_repository(Path(folder))
        os.chdir(folder)
        os.environ["PYTHONPATH"] = folder  # of the tests, without cosmic-ray and what it needs
        for package in packages:
            try_mutants(package)
        os.chdir("/")


if __name__ == "__main__":
    main(sys.argv[1:])
