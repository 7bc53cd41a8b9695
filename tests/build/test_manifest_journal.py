"""The journal of a manifest: it reads as the manifest that was written as a whole; torn records are ignored."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from project import Project, axpy, module

from tileiras.build.ledger.manifest import Manifest
from tileiras.build.ledger.manifest_file import JOURNAL, SHARE, Line, ManifestFile

ROWS = 120


def line(number: int, turn: int) -> Line:
    """A row of a kernel; rows of other turns have other signatures and inputs."""
    text = f'["k{number}:ptx","kernels/k{number}.mlir","s",[],[],[],["kernels/k{number}.mlir","t{turn}"],[],[]]'
    return Line(text.encode(), f"{number}.{turn}")


def state(path: Path | str) -> list[Line]:
    """All rows that a reader finds; some are also looked up alone."""
    file = ManifestFile(str(path))
    found = [Line(text, word) for text, word in zip(file.lines(), file.signatures(), strict=True)]
    for place, row in list(enumerate(found))[::13]:
        key = row.text.split(b'"')[1].decode()
        alone = file.beginning(key)
        assert alone is not None and (alone.place, alone.text) == (place, row.text)
        (named,) = file.naming(f"kernels/{key.removesuffix(':ptx')}.mlir")
        assert named == alone and named.time == file.time(place)
    return found


def written(path: Path) -> list[Line]:
    rows = [line(number, 0) for number in range(ROWS)]
    ManifestFile(str(path)).write(rows)
    return rows


def changed(rows: list[Line], path: Path, places: dict[int, Line]) -> list[Line]:
    """Replaces rows as a build does that has just read the file; returns all rows."""
    file = ManifestFile(str(path))
    assert file.replace(places)
    return [places.get(place, row) for place, row in enumerate(rows)]


def test_a_journal_truncated_anywhere_keeps_its_earlier_records(tmp_path):
    path = tmp_path / "m.json"
    journal = tmp_path / ("m.json" + JOURNAL)
    states, sizes = [written(path)], [0]
    for turn, places in enumerate([(3,), (5, 3), (0, ROWS - 1)], 1):
        states.append(changed(states[-1], path, {place: line(place, turn) for place in places}))
        sizes.append(journal.stat().st_size)
    whole = journal.read_bytes()
    for end in range(len(whole) + 1):
        journal.write_bytes(whole[:end])
        # A record without its final line break is complete.
        expected = states[max(turn for turn, size in enumerate(sizes) if end >= size - (turn > 0))]
        assert state(path) == expected, end
        if end % 16 == 0:
            expected = changed(expected, path, {7: line(7, 9)})
            assert state(path) == expected, end


def test_a_damaged_byte_ends_the_journal(tmp_path):
    path = tmp_path / "m.json"
    journal = tmp_path / ("m.json" + JOURNAL)
    first = written(path)
    second = changed(first, path, {3: line(3, 1)})
    size = journal.stat().st_size
    third = changed(second, path, {4: line(4, 2)})
    whole = journal.read_bytes()
    for at in range(len(whole)):
        journal.write_bytes(whole[:at] + bytes([whole[at] ^ 0x21]) + whole[at + 1 :])
        known = [first, second] if at < size else [second]
        # The line breaks around a record do not belong to it.
        assert state(path) in (known if whole[at : at + 1] != b"\n" else [first, second, third]), at


@settings(deadline=None, max_examples=60)
@given(st.lists(
    st.one_of(
        st.lists(st.integers(0, ROWS - 1), min_size=1, max_size=4), st.permutations(range(6)), st.integers(0, 400),
    ), max_size=12,
))  # fmt: skip
def test_journal_and_rewritten_file_say_the_same(tmp_path_factory, edits):
    """Lists of places are changed rows, permutations another order, numbers bytes that a crash takes off the end."""
    folder = tmp_path_factory.mktemp("journal")
    path, other, journal = folder / "m.json", folder / "other.json", folder / ("m.json" + JOURNAL)
    rows, digests = written(path), [ManifestFile(str(path)).digest]
    before = [rows]
    for turn, edit in enumerate(edits, 1):
        file = ManifestFile(str(path))
        assert file.digest == digests[-1]
        if isinstance(edit, int):
            if journal.exists():
                size = max(0, journal.stat().st_size - edit)
                os.truncate(journal, size)
            rows = state(path)
            assert rows in before
            digests.append(ManifestFile(str(path)).digest)
            continue
        if isinstance(edit, tuple) or len(set(edit)) == 6:
            rows = [rows[place] for place in (*edit, *range(6, ROWS))]
            file.write(rows)
        else:
            places = {place: line(place_of(rows[place]), turn) for place in edit}
            rows = [places.get(place, row) for place, row in enumerate(rows)]
            if not file.replace(places):
                file.write(rows)
        assert file.digest not in digests
        digests.append(file.digest)
        before.append(rows)
        ManifestFile(str(other)).write(rows)
        assert state(path) == state(other) == rows
        assert [Line(text, word) for text, word in zip(file.lines(), file.signatures(), strict=True)] == rows


def place_of(row: Line) -> int:
    return int(row.signature.partition(".")[0])


def test_of_two_builds_that_end_at_once_one_is_noted(tmp_path):
    path = tmp_path / "m.json"
    rows = written(path)
    one, two, late = (ManifestFile(str(path)) for _ in range(3))
    assert one.lines() == two.lines() == late.lines() == [row.text for row in rows]
    assert one.replace({1: line(1, 1)}) and two.replace({2: line(2, 2)})
    first = [line(1, 1) if place == 1 else row for place, row in enumerate(rows)]
    assert state(path) == first and ManifestFile(str(path)).digest == one.digest != two.digest
    second = changed(first, path, {4: line(4, 3)})
    assert state(path) == second
    # A record for a state that a new manifest has replaced is ignored.
    turned = list(reversed(rows))
    ManifestFile(str(path)).write(turned)
    assert late.replace({5: line(5, 4)})
    assert state(path) == turned


def test_the_journal_stays_an_eighth_of_the_file(tmp_path):
    path = tmp_path / "m.json"
    rows = written(path)
    for turn in range(1, 40):
        file = ManifestFile(str(path))
        places = {turn % ROWS: line(turn % ROWS, turn)}
        rows = [places.get(place, row) for place, row in enumerate(rows)]
        if not file.replace(places):
            file.write(rows)
            break
        size = os.path.getsize(f"{path}{JOURNAL}")
        assert 0 < size * SHARE <= path.stat().st_size
    assert turn > 3 and not os.path.exists(f"{path}{JOURNAL}")
    assert state(path) == rows


# ---- as a manifest ---------------------------------------------------------------------------------------------------


def kernels(folder: Path) -> Manifest:
    """A manifest of many files that are older than it."""
    manifest = Manifest(str(folder / "m.json"), str(folder))
    for number in range(ROWS):
        path = folder / f"k{number}.mlir"
        path.write_text(str(number))
        os.utime(path, ns=(1, 1))
        note(manifest, path)
    manifest.save()
    return Manifest(manifest.path, str(folder))


def note(manifest: Manifest, path: Path) -> None:
    assert manifest.set(path.stem, str(path), "s", manifest.observe([str(path)]), {}, [(path.name, path.stem)])


def test_a_row_in_the_journal_is_as_good_as_one_in_the_file(tmp_path):
    manifest = kernels(tmp_path)
    before = (tmp_path / "m.json").stat()
    path = tmp_path / "k7.mlir"
    path.write_text("edited")
    assert manifest.clean("k7", "s") is None
    note(manifest, path)
    manifest.save()
    after = (tmp_path / "m.json").stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    again = Manifest(manifest.path, str(tmp_path))
    assert again.digest == manifest.digest and again.count == ROWS
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


def test_new_and_lost_rows_write_the_file(tmp_path):
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
    assert not os.path.exists(manifest.path + JOURNAL)


@pytest.mark.slow
def test_builds_of_few_edits_write_no_manifest_anew(tmp_path):
    project = Project(tmp_path)
    for number in range(24):
        project.write(f"kernels/k{number}.mlir", module(axpy(f"k{number}")))
    project.scons()
    time.sleep(2.1)
    project.scons()  # every file has been looked at again
    folder = project.path("build/.tileiras/manifests")
    (name,) = os.listdir(folder)
    before = project.read(os.path.join(folder, name))
    for turn, number in enumerate((5, 20, 5)):
        project.write(f"kernels/k{number}.mlir", module(axpy(f"k{number}", comment=f"  // {turn}\n")))
        assert project.scons().ran == [f"read k{number}.cuda_tile.mlir"]
        assert project.scons().ran == []
        if turn == 0:
            assert project.read(os.path.join(folder, name)) == before
            assert os.path.exists(os.path.join(folder, name + JOURNAL))
