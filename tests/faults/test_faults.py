"""Each of the faults in faults.toml must be caught by the tests that it names."""

from pathlib import Path

import pytest

from tests.faults.run import FAILED, Fault, copy_repository, find_file, find_test, read_faults, read_sources, try_fault

FAULTS = read_faults()


def test_the_faults_fit_the_code_and_their_tests_exist() -> None:
    sources = read_sources()
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)
    for fault in FAULTS:
        find_file(fault, sources)
        assert fault.new != fault.old and fault.tests, fault.name
        for test in fault.tests:
            find_test(test)


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the tracked files."""
    folder = tmp_path_factory.mktemp("faults")
    copy_repository(folder)
    return folder


@pytest.mark.nightly
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name.replace(" ", "_"))
def test_a_fault_is_caught(fault: Fault, copy: Path) -> None:
    result = try_fault(fault, copy)
    assert result.returncode == FAILED, result.stdout
