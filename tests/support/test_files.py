"""Files that are written completely or not at all."""

import os

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
