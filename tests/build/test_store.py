import glob
import os
import sqlite3

import pytest

from tileiras.build.store.local import OFF, ArtifactStore, Record
from tileiras.inputs import Input

RECORD = Record({".ptx": b"// text\n", ".json": b""}, {"files": [], "diagnostics": []},
                (Input("module", "helper", "helper.py 12", (".", "*")),))  # fmt: skip


@pytest.fixture
def open_store(tmp_path):
    warnings: list[str] = []
    stores = []

    def open_one() -> ArtifactStore:
        stores.append(ArtifactStore(str(tmp_path / "store"), warnings.append))
        return stores[-1]

    yield open_one, warnings
    for store in stores:
        store.close()


def test_a_record_comes_back_as_it_was_put(open_store):
    store = open_store[0]()
    store.put_record("key", RECORD)
    record = store.get_record("key")
    assert (dict(record.artifacts), record.diagnostics, record.inputs) == (
        dict(RECORD.artifacts), RECORD.diagnostics, RECORD.inputs,
    )  # fmt: skip
    assert store.get_record("other key") is None


def test_every_damaged_entry_is_a_miss_with_one_warning(open_store, tmp_path):
    store, warnings = open_store[0](), open_store[1]
    names = [f"key {n}" for n in range(6)]
    for name in names:
        store.put_record(name, RECORD)
    store.close()
    for path in glob.glob(str(tmp_path / "store" / "v1" / "*" / "cache.db")):
        with sqlite3.connect(path) as connection:
            for row, value in connection.execute("SELECT rowid, value FROM Cache").fetchall():
                flipped = bytearray(value)
                flipped[-3] ^= 0x10
                connection.execute("UPDATE Cache SET value = ? WHERE rowid = ?", (bytes(flipped), row))
        connection.close()
    store = open_store[0]()
    assert [store.get_record(name) for name in names] == [None] * 6
    assert len(warnings) == 1 and "damaged entry" in warnings[0]
    store.put_record(names[0], RECORD)
    assert store.get_record(names[0]).artifacts == RECORD.artifacts


def test_a_pickled_row_is_never_unpickled(open_store, tmp_path):
    import pickle

    class Bomb:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "exploded"),)

    store, warnings = open_store[0](), open_store[1]
    store.put("key", b"value")
    store.close()
    for path in glob.glob(str(tmp_path / "store" / "v1" / "*" / "cache.db")):
        with sqlite3.connect(path) as connection:
            connection.execute("UPDATE Cache SET mode = 4, value = ?", (pickle.dumps(Bomb()),))
        connection.close()
    assert open_store[0]().get("key") is None
    assert len(warnings) == 1
    assert not (tmp_path / "exploded").exists()


def test_a_damaged_database_is_set_aside(open_store, tmp_path):
    store, warnings = open_store[0](), open_store[1]
    store.put_record("key", RECORD)
    store.close()
    for path in glob.glob(str(tmp_path / "store" / "v1" / "*" / "cache.db*")):
        with open(path, "wb") as file:
            file.write(b"this is no database" * 100)
    store = open_store[0]()
    assert store.get_record("key") is None
    store.put_record("key", RECORD)
    assert store.get_record("key").artifacts == RECORD.artifacts
    assert len(warnings) == 1


def test_a_directory_that_cannot_be_written_is_no_error(tmp_path):
    warnings: list[str] = []
    (tmp_path / "file").write_text("in the way")
    store = ArtifactStore(str(tmp_path / "file" / "store"), warnings.append)
    store.put_record("key", RECORD)
    assert store.get_record("key") is None
    assert len(warnings) == 1


def test_off_keeps_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store = ArtifactStore(OFF, pytest.fail)
    store.put_record("key", RECORD)
    assert store.get_record("key") is None
    assert os.listdir(tmp_path) == []


def test_bytes_that_are_no_record_are_a_value_error():
    whole = RECORD.to_bytes()
    for damaged in (b"", b"\x01", whole[:-1], whole + b"x", b"\xff\xff\xff\xff" + whole):
        with pytest.raises(ValueError):
            Record.from_bytes(damaged)


def test_rows_are_in_the_shards_where_diskcache_looks_for_them(open_store, tmp_path):
    import diskcache

    from tileiras.build.store.local import folder_of
    from tileiras.build.store.shards import Rows, shard_number

    store = open_store[0]()
    keys = [f"ptx:{n}" for n in range(20)]
    for key in keys:
        store.put(key, key.encode())
    store.close()
    folder = folder_of(str(tmp_path / "store"))
    plain = diskcache.FanoutCache(folder, shards=8)
    assert [shard_number(key) for key in keys] == [plain._hash(key) % 8 for key in keys]
    plain.close()
    for noting in (False, True):
        reader = Rows(folder, noting)
        assert all(reader.get(key).endswith(key.encode()) for key in keys) and reader.get("ptx:none") is None
        reader.close()


def test_reading_a_row_notes_its_use(open_store, tmp_path):
    from tileiras.build.store.local import folder_of
    from tileiras.build.store.shards import shard_folder, shard_number

    store = open_store[0]()
    store.put("key", b"x" * 100_000)
    store.close()
    database = os.path.join(shard_folder(folder_of(str(tmp_path / "store")), shard_number("key")), "cache.db")

    def noted() -> float:
        connection = sqlite3.connect(database)
        entry = connection.execute("SELECT access_time FROM Cache").fetchone()[0]
        connection.close()
        return entry

    before = noted()
    again = open_store[0]()
    assert again.get("key") == b"x" * 100_000
    again.close()
    assert noted() > before
