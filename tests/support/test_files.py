"""Files that are written completely or not at all."""

import os
import sys

import pytest

from tileiras.support import files
from tileiras.support.files import write_atomically


def no_function():
    raise AttributeError("renameat2")


@pytest.mark.parametrize("has_exchange", [True, False])
@pytest.mark.parametrize("checked", [True, False])
def test_a_file_is_replaced_atomically_without_leftovers(tmp_path, monkeypatch, checked, has_exchange):
    if not has_exchange:
        monkeypatch.setattr(files, "_renameat2", no_function)
    path = tmp_path / "folder" / "file"
    for data in (b"first", b"second", b""):
        opened = open(path, "rb") if path.exists() else None
        before = os.fstat(opened.fileno()).st_ino if opened else None
        write_atomically(str(path), data, checked=checked)
        assert path.read_bytes() == data and os.stat(path).st_ino != before
        if opened:
            assert opened.read() != data  # readers of the old file keep its contents
            opened.close()
        assert os.listdir(tmp_path / "folder") == ["file"]


@pytest.mark.parametrize("checked", [True, False])
def test_irregular_files_are_treated_as_by_rename(tmp_path, checked):
    (tmp_path / "target").write_text("old")
    (tmp_path / "link").symlink_to("target")
    write_atomically(str(tmp_path / "link"), b"new", checked=checked)
    assert not (tmp_path / "link").is_symlink() and (tmp_path / "target").read_text() == "old"
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError):
        write_atomically(str(tmp_path / "folder"), b"new", checked=checked)
    assert (tmp_path / "folder").is_dir() and sorted(os.listdir(tmp_path)) == ["folder", "link", "target"]


def test_a_removed_folder_of_temporaries_is_made_again(tmp_path):
    write_atomically(str(tmp_path / "a"), b"1", str(tmp_path / "gone"), checked=True)
    assert (tmp_path / "a").read_bytes() == b"1"


@pytest.mark.skipif(sys.platform != "linux", reason="files are exchanged on Linux only")
def test_another_process_removes_the_earlier_artifact(tmp_path, monkeypatch):
    """An old artifact in the folder of temporaries is taken for one that a killed process has left."""
    path, temporary = tmp_path / "a", tmp_path / "tmp"
    temporary.mkdir()
    path.write_bytes(b"1")
    os.utime(path, (0, 0))
    exchange = files._renameat2()

    def exchange_and_clean(*arguments):
        result = exchange(*arguments)
        files.remove_left_over(str(temporary))
        return result

    monkeypatch.setattr(files, "_renameat2", lambda: exchange_and_clean)
    write_atomically(str(path), b"2", str(temporary), checked=True)
    assert path.read_bytes() == b"2" and not list(temporary.iterdir())
