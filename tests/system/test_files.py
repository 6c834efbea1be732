"""Atomic writes of files and folders."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from seq2seq_chat.system.errors import UserError
from seq2seq_chat.system.files import (
    TEMPORARY,
    as_user_error,
    atomic_folder,
    atomic_write,
    copy_file,
    remove_folder,
    remove_temporary,
    write_atomically,
    write_json,
)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_written_or_replaced_when_the_block_ends(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with atomic_write(path) as stream:
        stream.write("é\n")
        assert not path.exists()
    assert path.read_bytes() == b"\xc3\xa9\n"  # UTF-8, whatever the locale
    write_atomically(tmp_path / "names", os.fsdecode(b"k\xf6rper"))  # as of a corpus whose name is not UTF-8
    assert (tmp_path / "names").read_text() == "k?rper"
    (tmp_path / "names").unlink()
    with atomic_write(path, "wb") as stream:
        stream.write(b"new")
        stream.flush()
        assert path.read_bytes() == b"\xc3\xa9\n"
    assert path.read_text() == "new"
    assert names(tmp_path) == ["file"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_failed_block_leaves_everything_as_it_was(tmp_path: Path, error: type[BaseException]) -> None:
    write_atomically(tmp_path / "file", b"old")
    with pytest.raises(error), atomic_write(tmp_path / "file") as stream:
        stream.write("new")
        raise error
    with pytest.raises(error), atomic_folder(tmp_path / "folder") as folder:
        (folder / "file").touch()
        raise error
    assert (tmp_path / "file").read_bytes() == b"old"
    assert names(tmp_path) == ["file"]


def test_an_unwritable_path_is_named(tmp_path: Path) -> None:
    path = tmp_path / "missing" / "file"
    with pytest.raises(UserError, match=rf"{path} could not be written: No such file or directory\. Check that"):
        write_json(path, {})
    with pytest.raises(UserError, match="file could not be written: File name too long"):
        write_json(Path("x" * 300, "file"), {})  # looking for abandoned files fails, too
    with pytest.raises(UserError, match=r"file could not be written: no room\. Check that"), as_user_error("file"):
        raise OSError("no room")


def test_a_copy_is_equal_and_a_source_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    write_json(tmp_path / "file.json", {"text": "é"})
    copy_file(tmp_path / "file.json", tmp_path / "copy.json")
    assert (tmp_path / "copy.json").read_bytes() == b'{\n  "text": "\\u00e9"\n}\n'
    with pytest.raises(UserError, match=r"missing\.json could not be read: No such file or directory"):
        copy_file(tmp_path / "missing.json", tmp_path / "other.json")
    assert not (tmp_path / "other.json").exists()


def test_a_folder_appears_when_the_block_ends(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder"
    with atomic_folder(path) as folder:
        (folder / "file").touch()
        assert not path.exists()
    assert names(path) == ["file"]
    assert names(path.parent) == ["folder"]
    assert path.stat().st_mode & 0o755 == 0o755


def test_an_empty_folder_is_replaced_and_one_with_contents_is_kept(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with atomic_folder(tmp_path / "folder") as folder:
        (folder / "first").touch()
    with pytest.raises(FileExistsError), atomic_folder(tmp_path / "folder") as folder:
        (folder / "second").touch()
    assert names(tmp_path / "folder") == ["first"]
    assert names(tmp_path) == ["folder"]


def test_remains_of_a_killed_process_are_removed(tmp_path: Path) -> None:
    (tmp_path / ".folder.1234.tmp").mkdir()
    (tmp_path / ".file.1234.tmp").touch()
    (tmp_path / "file").touch()
    remove_temporary(tmp_path)
    assert names(tmp_path) == ["file"]


WRITERS = {
    "file": "context = atomic_write(path); context.__enter__().write('new')",
    "folder": "context = atomic_folder(path); (context.__enter__() / 'a').touch()",
}


@pytest.mark.parametrize("kind", WRITERS)
def test_what_a_killed_process_left_is_removed_but_not_what_is_in_use(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "results[1]"
    (tmp_path / ".other.0123456789.tmp").touch()
    (tmp_path / ".folder.01234567.tmp").mkdir()  # of an earlier version, which did not lock
    foreign = names(tmp_path)

    def write_next() -> None:
        for entry in tmp_path.iterdir():
            os.utime(entry, (0, 0))
        if kind == "file":
            write_atomically(path, "next")
        else:
            with atomic_folder(tmp_path / "other"):
                pass
            (tmp_path / "other").rmdir()

    program = f"from seq2seq_chat.system.files import *; path = {str(path)!r}; {WRITERS[kind]}; print(); input()"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        write_next()
        (temporary,) = tmp_path.glob(".results*.tmp")
        process.kill()
    write_next()
    assert not temporary.exists()
    assert {*foreign} <= {*names(tmp_path)}


def test_a_folder_is_removed_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "run").mkdir()
    monkeypatch.setattr(shutil, "rmtree", lambda *_, **__: None)  # killed here
    remove_folder(tmp_path / "run")
    assert [bool(TEMPORARY.fullmatch(name)) for name in names(tmp_path)] == [True]
