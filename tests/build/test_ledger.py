"""The file format of the ledger: appended records read as a file written as a whole; torn records are ignored."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from project import Project, axpy, module

from tileiras.build.ledger import log
from tileiras.build.ledger.log import DELETED, SHARE, Line, Log
from tileiras.build.ledger.manifest import Manifest

ROWS = 120

Rows = dict[str, Line]


@pytest.fixture(autouse=True)
def little_room(monkeypatch):
    """Records of a few rows are an eighth of the first record."""
    monkeypatch.setattr(log, "SPARE", 0)


def line(number: int, turn: int) -> Line:
    """A row of a kernel; rows of other turns have other signatures and inputs."""
    return Line(b'["kernels/k%d.mlir","t%d"]' % (number, turn), f"{number}.{turn}")


def plain(rows: Rows) -> list[tuple[str, bytes, str]]:
    """Rows in order, without their times."""
    return [(key, row.text, row.word) for key, row in rows.items()]


def state(path: Path | str) -> Rows:
    """All rows that a reader gets; some are also looked up by a string in them."""
    file = Log(str(path))
    for key in list(file.lines)[::13]:
        assert list(file.naming(f"kernels/{key}.mlir")) == [key]
    return file.lines


def written(path: Path) -> Rows:
    rows = {f"k{number}": line(number, 0) for number in range(ROWS)}
    Log(str(path)).write(rows)
    return rows


def changed(rows: Rows, path: Path, edits: Rows, chained: bool = True) -> Rows:
    """Replace rows as a build does that has just read the file; return all rows."""
    before = path.read_bytes()
    Log(str(path)).append(edits, chained=chained)
    assert path.read_bytes().startswith(before)
    return {**rows, **edits}


def turned(turn: int, *numbers: int) -> Rows:
    return {f"k{number}": line(number, turn) for number in numbers}


@pytest.mark.parametrize("chained", [True, False])
def test_a_log_truncated_anywhere_keeps_its_earlier_records(tmp_path, chained):
    path = tmp_path / "m.log"
    states = [written(path)]
    sizes = [path.stat().st_size]
    for turn, numbers in enumerate([(3,), (5, 3), (0, ROWS - 1)], 1):
        states.append(changed(states[-1], path, turned(turn, *numbers), chained))
        sizes.append(path.stat().st_size)
    whole = path.read_bytes()
    for end in range(sizes[0], len(whole) + 1):
        path.write_bytes(whole[:end])
        # A record without its final line break is complete.
        expected = states[max(turn for turn, size in enumerate(sizes) if end >= size - 1)]
        assert plain(state(path)) == plain(expected), end
        if end % 16 == 0:
            Log(str(path)).append(turned(9, 7), chained=chained)
            assert plain(state(path)) == plain({**expected, **turned(9, 7)}), end
    for end in range(0, sizes[0] - 1, 97):
        path.write_bytes(whole[:end] + whole[sizes[0] :])
        assert not {f"k{number}" for number in range(6, ROWS - 1)} & Log(str(path)).lines.keys()
        assert not chained or not Log(str(path)).lines


@pytest.mark.parametrize("chained", [True, False])
def test_a_damaged_byte_ends_its_record(tmp_path, chained):
    path = tmp_path / "m.log"
    first = written(path)
    start = path.stat().st_size
    second = changed(first, path, turned(1, 3), chained)
    size = path.stat().st_size
    third = changed(second, path, turned(2, 4), chained)
    whole = path.read_bytes()
    for at in range(start, len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x21]) + whole[at + 1 :])
        lost = first if chained else {**first, **turned(2, 4)}
        states = [plain(lost) if at < size else plain(second)]
        if at in (start, start + 1, size, size + 1):  # the end of one record and the beginning of the next
            states += [plain({}), plain(turned(2, 4)), plain(first)]
        if whole[at : at + 1] == b"\n":  # a line break around a record does not belong to it
            states += [plain(second), plain(third)] if at in (start, size, size - 1, len(whole) - 1) else []
        assert plain(state(path)) in states, at


@settings(deadline=None, max_examples=60)
@given(st.lists(
    st.one_of(
        st.lists(st.integers(0, ROWS - 1), min_size=1, max_size=4), st.permutations(range(6)), st.integers(0, 400),
    ), max_size=12,
))  # fmt: skip
def test_appended_records_and_a_compacted_file_say_the_same(tmp_path_factory, edits):
    """Lists of numbers are changed rows, permutations another order, numbers bytes that a crash takes off the end."""
    folder = tmp_path_factory.mktemp("log")
    path, other = folder / "m.log", folder / "other.log"
    rows, marks = written(path), [Log(str(path)).state]
    before = [plain(rows)]
    first = path.stat().st_size
    for turn, edit in enumerate(edits, 1):
        file = Log(str(path))
        assert file.state == marks[-1]
        if isinstance(edit, int):
            os.truncate(path, max(first, path.stat().st_size - edit))
            rows = state(path)
            assert plain(rows) in before
            marks.append(Log(str(path)).state)
            continue
        if isinstance(edit, tuple) or len(set(edit)) == 6:
            order = list(rows)
            rows = {order[place]: rows[order[place]] for place in (*edit, *range(6, ROWS))}
            file.write(rows)
        else:
            changes = turned(turn, *edit)
            rows = {**rows, **changes}
            file.append(changes, chained=True)
        assert file.state not in marks
        if file.state == Log(str(path)).state and path.read_bytes().count(b"\n#") == 0:
            first = path.stat().st_size
        marks.append(file.state)
        before.append(plain(rows))
        Log(str(other)).write(rows)
        assert plain(state(path)) == plain(state(other)) == plain(rows) == plain(file.lines)


def test_of_two_builds_that_end_at_once_one_is_noted(tmp_path):
    path = tmp_path / "m.log"
    rows = written(path)
    one, two, late = (Log(str(path)) for _ in range(3))
    assert plain(one.lines) == plain(two.lines) == plain(late.lines) == plain(rows)
    one.append(turned(1, 1), {"epoch": "1"}, chained=True)
    two.append(turned(2, 2), {"epoch": "2"}, chained=True)
    first = {**rows, **turned(1, 1)}
    assert plain(state(path)) == plain(first)
    assert (Log(str(path)).state, Log(str(path)).note) == (one.state, {"epoch": "1"})
    second = changed(first, path, turned(3, 4))
    assert plain(state(path)) == plain(second) and Log(str(path)).note is None
    # A record for a state that a new file has replaced is ignored.
    reordered = dict(reversed(rows.items()))
    Log(str(path)).write(reordered)
    late.append(turned(4, 5), chained=True)
    assert plain(state(path)) == plain(reordered)


def test_of_two_workers_that_end_at_once_both_are_noted(tmp_path):
    path = tmp_path / "m.log"
    rows = written(path)
    one, two = Log(str(path)), Log(str(path))
    one.append(turned(1, 1))
    two.append({**turned(2, 2), "k3": DELETED})
    expected = {**rows, **turned(1, 1), **turned(2, 2)}
    del expected["k3"]
    assert plain(state(path)) == plain(expected)


def test_the_appended_records_stay_an_eighth_of_the_first(tmp_path):
    path = tmp_path / "m.log"
    rows = written(path)
    first = path.stat().st_size
    for turn in range(1, 40):
        rows = {**rows, **turned(turn, turn % ROWS)}
        Log(str(path)).append(turned(turn, turn % ROWS), chained=True)
        if path.read_bytes().count(b"\n#") == 0:
            break
        assert 0 < (path.stat().st_size - first - 2 * turn) * SHARE <= first
    assert turn > 3 and path.stat().st_size - first < 20
    assert plain(state(path)) == plain(rows)


def test_a_file_of_another_version_is_written_anew(tmp_path, monkeypatch):
    path = tmp_path / "m.log"
    written(path)
    monkeypatch.setattr(log, "VERSION", log.VERSION + 1)
    file = Log(str(path))
    assert (file.lines, file.note, file.state) == ({}, None, "")
    file.append(turned(1, 1), chained=True)
    assert plain(state(path)) == plain(turned(1, 1)) and b"kernels/k2" not in path.read_bytes()


# ---- as a manifest ---------------------------------------------------------------------------------------------------


def kernels(folder: Path) -> Manifest:
    """A manifest of many files that are older than it."""
    manifest = Manifest(str(folder / "m.log"), str(folder))
    for number in range(ROWS):
        path = folder / f"k{number}.mlir"
        path.write_text(str(number))
        os.utime(path, ns=(1, 1))
        note(manifest, path)
    manifest.save()
    return Manifest(manifest.path, str(folder))


def note(manifest: Manifest, path: Path) -> None:
    assert manifest.set(path.stem, str(path), "s", manifest.observe([str(path)]), {}, [(path.name, path.stem)])


def test_an_appended_row_is_as_good_as_one_of_the_first_record(tmp_path):
    manifest = kernels(tmp_path)
    before = (tmp_path / "m.log").read_bytes()
    path = tmp_path / "k7.mlir"
    path.write_text("edited")
    assert manifest.clean("k7", "s") is None
    note(manifest, path)
    manifest.save()
    assert (tmp_path / "m.log").read_bytes().startswith(before)
    again = Manifest(manifest.path, str(tmp_path))
    assert again.count == ROWS
    for number in range(ROWS):  # some are looked for alone, then all are read
        row = again.clean(f"k{number}", "s")
        assert row is not None and row.products == [[f"k{number}.mlir", f"k{number}"]]
    again.keep([f"k{number}" for number in range(ROWS)])
    assert [row.key for row in again.rows()] == [f"k{number}" for number in range(ROWS)]
    # Young when its row was written: a change that kept size and time is found by the row's own time.
    stamp = path.stat().st_mtime_ns
    path.write_text("EDITED")
    os.utime(path, ns=(stamp, stamp))
    assert Manifest(manifest.path, str(tmp_path)).clean("k7", "s") is None


def test_many_kernels_without_a_row(tmp_path):
    manifest = kernels(tmp_path)
    for number in range(2 * ROWS):
        assert manifest.clean(f"new{number}", "s") is None
        assert (manifest.clean(f"k{number}", "s") is not None) == (number < ROWS)


def test_new_and_lost_rows(tmp_path):
    manifest = kernels(tmp_path)
    (tmp_path / "new.mlir").write_text("new")
    note(manifest, tmp_path / "new.mlir")
    manifest.save()
    assert [row.key for row in Manifest(manifest.path, str(tmp_path)).rows()][-2:] == [f"k{ROWS - 1}", "new"]
    manifest = Manifest(manifest.path, str(tmp_path))
    before = manifest.observe([str(tmp_path / "k3.mlir")])
    (tmp_path / "k3.mlir").write_text("edited meanwhile")
    assert not manifest.set("k3", str(tmp_path / "k3.mlir"), "s", before, {}, [])
    manifest.save()
    again = Manifest(manifest.path, str(tmp_path))
    assert again.count == ROWS and again.clean("k3", "s") is None and again.clean("k4", "s") is not None


@pytest.mark.slow
def test_builds_of_few_edits_write_no_manifest_anew(tmp_path):
    project = Project(tmp_path)
    for number in range(24):
        project.write(f"kernels/k{number}.mlir", module(axpy(f"k{number}")))
    project.scons()
    time.sleep(2.1)
    project.scons()  # every file has been looked at again
    folder = project.path("build/.tileiras/trees")
    (name,) = os.listdir(folder)
    before = project.read(os.path.join(folder, name))
    for turn, number in enumerate((5, 20, 5)):
        project.write(f"kernels/k{number}.mlir", module(axpy(f"k{number}", comment=f"  // {turn}\n")))
        assert project.scons().ran == [f"read k{number}.cuda_tile.mlir"]
        assert project.scons().ran == []
        if turn == 0:
            after = project.read(os.path.join(folder, name))
            assert after.startswith(before) and len(after) > len(before)
