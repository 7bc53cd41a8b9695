import os

from tileiras.codegen.folder_store import FolderStore, user_store


def test_what_is_put_is_got_by_another_store_of_the_folder(tmp_path):
    FolderStore(str(tmp_path / "new")).put("a/b", b"value")
    assert FolderStore(str(tmp_path / "new")).get("a/b") == b"value"
    assert FolderStore(str(tmp_path / "new")).get("a") is None
    assert len(os.listdir(tmp_path / "new")) == 1


def test_a_damaged_file_is_absent(tmp_path):
    store = FolderStore(str(tmp_path))
    store.put("k", b"value")
    (name,) = os.listdir(tmp_path)
    (tmp_path / name).write_bytes((tmp_path / name).read_bytes()[:-1] + b"X")
    assert store.get("k") is None
    store.put("k", b"again")
    assert store.get("k") == b"again"


def test_a_folder_that_cannot_be_made_keeps_nothing(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    store = FolderStore(str(tmp_path / "file"))
    store.put("k", b"value")
    assert store.get("k") is None


def test_the_users_folder_follows_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("TILEIRAS_CACHE_DIR", str(tmp_path))
    assert user_store().folder == str(tmp_path / "files")
    monkeypatch.delenv("TILEIRAS_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert user_store().folder == str(tmp_path / "tileiras" / "files")
