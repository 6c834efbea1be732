"""Build small faults into a copy of the code, one at a time, and run the tests that must fail with each of them.

``python -m tests.faults.run`` prints how many were caught, by package; with names, only those faults are tried.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGES = ("seq2seq_chat", "webui")
PASSED, FAILED = 0, 1  # exit statuses of pytest; others are errors of the tests or of their names


class Fault(NamedTuple):
    """A small change of the code that breaks something its module promises."""

    name: str
    old: str  # occurs exactly once in the code
    new: str
    tests: list[str]  # of which one must fail: path::test; see find_test


def read_faults() -> list[Fault]:
    """The faults of faults.toml."""
    text = Path(__file__).with_name("faults.toml").read_text(encoding="utf-8")
    return [Fault(**entry) for entry in tomllib.loads(text)["faults"]]


def read_sources(folder: Path = REPOSITORY) -> dict[Path, str]:
    """The code of package and page, by path in the repository."""
    paths = (path for package in PACKAGES for path in (folder / package).rglob("*") if path.suffix in (".py", ".js"))
    return {path.relative_to(folder): path.read_text(encoding="utf-8") for path in paths if "vendor" not in path.parts}


def find_file(fault: Fault, sources: Mapping[Path, str]) -> Path:
    """The file that a fault changes. Raises ValueError unless its old code occurs exactly once."""
    files = [path for path, text in sources.items() for _ in range(text.count(fault.old))]
    if len(files) != 1:
        raise ValueError(f"the old code of the fault {fault.name!r} occurs {len(files)} times: {[*map(str, files)]}")
    return files[0]


def find_test(test: str, folder: Path = REPOSITORY) -> str:
    """The test of a fault, path::test, or the only one of this name, if it was moved. Raises ValueError."""
    path, _, name = test.partition("::")
    definition = f"\ndef {name}("
    if (folder / path).is_file() and definition in (folder / path).read_text(encoding="utf-8"):
        return test
    files = [file for file in (folder / "tests").rglob("test_*.py") if definition in file.read_text(encoding="utf-8")]
    if len(files) != 1:
        raise ValueError(f"there is no {test}, and {name} is in {len(files)} other files")
    return f"{files[0].relative_to(folder)}::{name}"


def package_of(path: Path) -> str:
    """The package of a file: a folder of seq2seq_chat, or webui."""
    return path.parts[1] if path.parts[0] == PACKAGES[0] else path.parts[0]


def copy_repository(folder: Path) -> None:
    """Copy the tracked files."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    for name in filter(None, listed.stdout.split("\0")):
        if (REPOSITORY / name).is_file():  # deleted, but not committed yet
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(REPOSITORY / name, folder / name)


def run_tests(folder: Path, tests: Iterable[str]) -> subprocess.CompletedProcess[str]:
    """Run tests, also slow ones, on the code in a copy."""
    # a fault and its removal may be written within the same second, so compiled files would not be up to date
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    options = ["-x", "-q", "-m", "", "-p", "no:cacheprovider", "-p", "no:xdist"]
    command = [sys.executable, "-m", "pytest", *options, *(find_test(test, folder) for test in tests)]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def try_fault(fault: Fault, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the tests of a fault with it; its exit status is FAILED if they catch it."""
    sources = read_sources(folder)
    path = find_file(fault, sources)
    try:
        (folder / path).write_text(sources[path].replace(fault.old, fault.new), encoding="utf-8")
        return run_tests(folder, fault.tests)
    finally:
        (folder / path).write_text(sources[path], encoding="utf-8")


def main(names: list[str]) -> int:
    """Try all faults, or those with the given names; returns the exit status."""
    faults, sources = read_faults(), read_sources()
    if unknown := set(names) - {fault.name for fault in faults}:
        print(f"no such fault: {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    faults = [fault for fault in faults if not names or fault.name in names]
    caught: Counter[str] = Counter()
    tried: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="faults_") as name:
        copy_repository(Path(name))
        without = run_tests(Path(name), dict.fromkeys(test for fault in faults for test in fault.tests))
        if without.returncode != PASSED:
            print(f"{without.stdout}\nthe tests must pass without a fault", file=sys.stderr)
            return 2
        for fault in faults:
            result, package = try_fault(fault, Path(name)), package_of(find_file(fault, sources))
            tried[package] += 1
            caught[package] += result.returncode == FAILED
            if result.returncode != FAILED:
                what = "survived" if result.returncode == PASSED else f"error {result.returncode}\n{result.stdout}"
                print(f"{package}: {fault.name}: {what}", flush=True)
    for package, count in tried.items():
        print(f"{package:<12} {caught[package]:>3} of {count} caught")
    print(f"{caught.total()} of {tried.total()} faults caught: {100 * caught.total() / tried.total():.0f} %")
    return 0 if caught == tried else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
