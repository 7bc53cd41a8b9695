"""tileiras-cache on the store of real builds."""

import glob
import json
import os
import shutil
import sqlite3

import pytest
from project import Project, axpy, module

from tileiras.build.store.local import ArtifactStore, Record
from tileiras.cli.tileiras_cache import main


@pytest.fixture
def project(tmp_path, monkeypatch):
    result = Project(tmp_path)
    result.write("kernels/k.mlir", module(axpy("first")))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TILEIRAS_CACHE_DIR", result.store)
    return result


def ask(capsys, *arguments: str, expect: int = 0):
    """The command's answer in JSON."""
    capsys.readouterr()
    assert main([*arguments, "--json"]) == expect
    return json.loads(capsys.readouterr().out)


def test_stats_count_the_rows_of_each_stage(project, capsys):
    shutil.rmtree(project.store, ignore_errors=True)
    assert ask(capsys, "stats")["entries"] == 0 and not os.path.exists(project.store)
    project.scons()
    result = ask(capsys, "stats")
    stages = {name: row["entries"] for name, row in result["stages"].items() if name != "other"}
    assert stages == {"read": 1, "tileaa": 1, "tileas": 1, "llvm": 1, "ptx": 1}
    assert result["limit"] == 5 << 30 and result["bytes"] > 1000
    assert main(["stats"]) == 0
    assert f"{project.store}: {result['entries']} entries" in capsys.readouterr().out


def test_verify_finds_and_removes_damaged_rows(project, capsys):
    project.scons()
    assert ask(capsys, "verify")["damaged"] == []
    for path in glob.glob(os.path.join(project.store, "v1", "*", "cache.db")):
        with sqlite3.connect(path) as connection:
            connection.execute("UPDATE Cache SET value = X'00' WHERE key LIKE 'tileas:%'")
        connection.close()
    (damaged,) = ask(capsys, "verify", expect=3)["damaged"]
    assert damaged.startswith("tileas:")
    assert ask(capsys, "verify")["damaged"] == []
    project.delete_build()
    build = project.scons()
    assert (build.stages, build.errors) == (["tileas"], "")


UNSOUND = [
    ("ptx", b"\x02\0\0\0{}"),
    ("ptx", Record({".ptx": b"\xff"}, {"diagnostics": []}).to_bytes()),
    ("ptx", Record({".json": b"[" * 100_000}, {"diagnostics": []}).to_bytes()),
    ("ptx", Record({"/../a.ptx": b""}, {"diagnostics": []}).to_bytes()),
    ("llvm", Record({".ll": b""}, {"files": [], "diagnostics": [["warning", "f7:1:1", "said", []]]}).to_bytes()),
    ("llvm", Record({".ll": b""}, {"files": [], "diagnostics": []}, seconds=float("nan")).to_bytes()),
    ("compile", Record({"entry\0.ptx": b""}, {"diagnostics": []}).to_bytes()),
    ("export", b"../../etc/passwd"),
]


def test_verify_finds_rows_that_are_whole_and_unsound(project, capsys):
    store = ArtifactStore(project.store, pytest.fail)
    ends = [":inputs" if stage == "export" else "" for stage, _ in UNSOUND]
    keys = [f"{stage}:{number:032x}{end}" for number, ((stage, _), end) in enumerate(zip(UNSOUND, ends))]
    store.put_record("ptx:sound", Record({".ptx": b"// text", ".json": b"{}"}, {"files": [], "diagnostics": []}))
    store.put("export:sound:inputs", b'{"format": 1, "rows": [["file helper.py", "x", 12]]}')
    store.put("export:sound:inputs:own", b'{"format": 1, "rows": []}')
    store.put("bitcode/some/split", b"parts")
    for key, (_, value) in zip(keys, UNSOUND):
        store.put(key, value)
    store.close()
    assert sorted(ask(capsys, "verify", expect=3)["damaged"]) == sorted(keys)
    assert ask(capsys, "verify")["checked"] == 4


def test_keygen_writes_a_private_key_and_overwrites_none(tmp_path, capsys):
    pytest.importorskip("cryptography")
    path = tmp_path / "key"
    line = ask(capsys, "keygen", str(path), "--comment", "ci at\nteam")["line"]
    assert line.startswith("ssh-ed25519 ") and line.endswith(" ci at team")
    assert path.stat().st_mode & 0o077 == 0 and (tmp_path / "key.pub").read_text() == line + "\n"
    before = path.read_bytes()
    assert main(["keygen", str(path)]) == 1 and path.read_bytes() == before
    assert capsys.readouterr().err.startswith("error: unable to write ")


def test_trim_and_clear_remove(project, capsys):
    project.scons()
    assert ask(capsys, "trim")["removed"] == 0
    assert ask(capsys, "trim", "--size", "0")["removed"] >= 5
    assert ask(capsys, "stats")["entries"] == 0
    project.delete_build()
    project.scons()
    assert ask(capsys, "clear")["removed"] >= 5
    assert ask(capsys, "stats")["entries"] == 0
    assert project.scons().stages == []


def test_path_is_the_store_of_the_nearest_checkout(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("TILEIRAS_CACHE_DIR", raising=False)
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "CACHEDIR.TAG").write_text("")
    (tmp_path / "deep" / "er").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "deep" / "er")
    assert main(["path"]) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'cache'}\n"


def why(capsys, kernel: str) -> dict[str, tuple[str, list[str]]]:
    return {row["stage"]: (row["outcome"], row["differs"]) for row in ask(capsys, "why", kernel)}


def test_why_names_the_part_of_the_key_that_differed(project, capsys):
    project.scons()
    assert why(capsys, "kernels/k.mlir")["ptx"] == ("ran", ["the first time in this build directory"])
    project.scons("ptx-version=8.8")
    assert why(capsys, "first")["ptx"] == ("ran", ["options: ptx-version: None -> '8.8'"])
    project.write("kernels/k.mlir", module(axpy("first", operation="mulf")))
    project.scons("ptx-version=8.8")
    result = why(capsys, "kernels/k.mlir")
    assert [result[stage] for stage in ("read", "tileaa", "ptx")] == [("ran", ["the input's bytes"])] * 3


def test_why_names_the_module_of_the_compiler_that_was_edited(project, capsys):
    compiler = project.copy_compiler()
    project.scons()
    with open(os.path.join(compiler, "tileiras", "stages", "llvm.py"), "a", encoding="utf-8") as file:
        file.write("\n# A remark.\n")
    project.scons()
    assert why(capsys, "first")["llvm"] == ("ran", ["the stage's code: tileiras.stages.llvm"])


def test_why_of_an_artifact_never_built_is_an_error(project, capsys):
    assert main(["why", "nothing"]) == 1
    assert capsys.readouterr().err == "error: no build of 'nothing' is known in build\n"


def test_a_read_only_store_is_read_and_not_written(project, capsys):
    shutil.rmtree(project.store)
    assert project.scons(TILEIRAS_CACHE_MODE="read-only").cached == []
    assert not os.path.exists(project.store)
    project.delete_build()
    project.scons()
    before = ask(capsys, "stats")["entries"]
    project.delete_build()
    assert project.scons("--cache-readonly", "sm=sm_90").stages == []
    assert project.scons("--cache-readonly", "sm=sm_80").cached == ["read"]
    assert ask(capsys, "stats")["entries"] == before


def test_refresh_compiles_and_writes(project):
    project.scons()
    for path in glob.glob(os.path.join(project.store, "v1", "*", "cache.db")):
        with sqlite3.connect(path) as connection:
            connection.execute("DELETE FROM Cache WHERE key LIKE 'tileas:%'")
        connection.close()
    project.delete_build()
    assert len(project.scons(TILEIRAS_CACHE_MODE="refresh").stages) == 5
    project.delete_build()
    assert project.scons().stages == []


def test_verify_mode_compiles_and_compares(project):
    project.scons()
    project.delete_build()
    assert project.scons(TILEIRAS_CACHE_MODE="verify").cached == []
    from tileiras.build.store.local import ArtifactStore, folder_of
    from tileiras.build.store.shards import Shards

    cache = Shards(folder_of(project.store))
    (key,) = [key for shard in cache for key in shard if key.startswith("tileas:")]
    cache.close()
    store = ArtifactStore(project.store, pytest.fail)
    record = store.get_record(key)
    store.put_record(key, record._replace(artifacts={**record.artifacts, ".tileas.mlir": b"// another text\n"}))
    store.close()
    project.delete_build()
    failed = project.scons(TILEIRAS_CACHE_MODE="verify", expect=2)
    assert "error: stage 'tileas' made another .tileas.mlir than the store has for its key" in failed.errors


def test_a_mode_or_size_that_does_not_exist_is_refused(project):
    build = project.scons(TILEIRAS_CACHE_MODE="fast", expect=2)
    assert "TILEIRAS_CACHE_MODE=fast: accepted are read-write, read-only, off, refresh, verify" in build.errors
    build = project.scons(TILEIRAS_CACHE_SIZE="much", expect=2)
    assert "'much' is no size" in build.errors


def test_the_store_stays_within_its_limit(tmp_path):
    from tileiras.build.store.local import ArtifactStore
    from tileiras.build.store.maintenance import statistics

    limit = 2 << 20
    store = ArtifactStore(str(tmp_path / "store"), pytest.fail, limit=limit)
    for number in range(300):
        store.put(f"key {number}", bytes([number % 251]) * 20_000)
    assert store.get("key 0") is None
    assert store.get("key 299") == bytes([299 % 251]) * 20_000
    store.close()
    assert statistics(str(tmp_path / "store"))["bytes"] <= limit * 1.25
