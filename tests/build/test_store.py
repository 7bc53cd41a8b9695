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


def columns(folder: str) -> dict[str, tuple]:
    """The rows of a store by key, without their times."""
    rows = {}
    for path in glob.glob(os.path.join(folder, "v*", "*", "cache.db")):
        connection = sqlite3.connect(path)
        query = "SELECT key, raw, expire_time, access_count, tag, size, mode, filename, value FROM Cache"
        rows.update((row[0], row) for row in connection.execute(query))
        connection.close()
    return rows


def test_a_row_written_without_diskcache_is_as_by_diskcache(open_store, tmp_path, monkeypatch):
    import diskcache

    from tileiras.build.store.shards import Rows

    keys = [f"ptx:{n}" for n in range(20)]
    store = open_store[0]()
    for key in keys:  # creates the shards, with the first of these rows
        store.put(key, key.encode())
    store.close()
    expected = columns(store.directory)
    for shard in glob.glob(os.path.join(store.folder, "*")):
        with diskcache.Cache(shard) as cache:
            cache.clear()
    opened = []
    monkeypatch.setattr(ArtifactStore, "_writable", lambda self: opened.append(self))
    again = open_store[0]()
    for key in keys:
        again.put(key, key.encode())
        assert again.get(key) == key.encode()
    again.close()
    assert columns(store.directory) == expected and not opened
    reader = Rows(store.folder, noting=True)
    assert reader.add("ptx:new", b"x", 1 << 30)
    # These are diskcache's: it replaces rows, writes files, evicts, and creates shards.
    assert not reader.add("ptx:new", b"x", 1 << 30)
    assert not reader.add("ptx:large", b"x" * (1 << 15), 1 << 30)
    assert not reader.add("ptx:over", b"x", 8 << 10)
    reader.close()
    reader = Rows(str(tmp_path / "absent"), noting=True)
    assert not reader.add("ptx:new", b"x", 1 << 30)


def test_a_row_is_replaced_and_a_full_store_evicts(open_store, tmp_path):
    store = open_store[0]()
    for value in (b"1", b"2", b"3"):
        store.put("key", value)
        again = open_store[0]()
        assert again.get("key") == value
        again.put("key", value + b" again")
        assert again.get("key") == value + b" again"
    limit = 2 << 20
    small = ArtifactStore(str(tmp_path / "small"), pytest.fail, limit=limit)
    for number in range(400):
        small.put(f"ptx:{number}", bytes([number % 251]) * 20_000)
        if number % 50 == 0:
            small.close()  # the next row is written without diskcache if there is room
    small.close()
    assert small.get("ptx:399") is not None and small.get("ptx:0") is None
    small.close()
    assert sum(len(row[-1]) for row in columns(small.directory).values()) < 1.3 * limit
