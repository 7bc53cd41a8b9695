"""A build directory or a store of another version is a miss: the next build is right, and reports nothing."""

import json
import struct
from pathlib import Path

import pytest
from project import Project, axpy, module

from tileiras.build.ledger import history, log, manifest
from tileiras.build.store import local
from tileiras.build.store.local import ArtifactStore, Record


@pytest.fixture
def project(tmp_path):
    result = Project(tmp_path)
    for name in ("a", "b"):
        result.write(f"kernels/{name}.mlir", module(axpy(name)))
    result.scons()
    return result


def records(project: Project) -> list[Path]:
    """The files of the ledger of the build directory."""
    folder = Path(project.path("build/.tileiras"))
    return [path for end in ("*.log", ".code/*") for path in folder.rglob(end) if path.is_file()]


def of_older_version(path: Path) -> None:
    """Replace the version in the mark of each record of a file."""
    data = path.read_bytes()
    present = b"#%d:" % log.VERSION
    assert data.startswith(present)
    path.write_bytes(data.replace(present, b"#%d:" % (log.VERSION - 1)))


def of_files_of_a_row_each(project: Project) -> None:
    """As a directory in which rows, manifests and leases were files of JSON of three formats."""
    for path in records(project):
        path.unlink()
    for name in ("keys/sm_90/O3/kernels/a.read.json", "manifests/m.json", "manifests/m.json.lease", "trees.json"):
        project.write(f"build/.tileiras/{name}", '{"format": 1, "outcome": "ran", "made": {}}')


def older_rows(project: Project) -> None:
    rows = [path for path in records(project) if history.FOLDER in str(path)]
    assert len(rows) >= 4
    for path in rows:
        of_older_version(path)


def older_manifests(project: Project) -> None:
    (path,) = [path for path in records(project) if manifest.FOLDER in str(path)]
    of_older_version(path)


def all_records_of_another_kind(project: Project) -> None:
    for path in records(project):
        path.write_text('{"format": 0, "rows": [1], "files": 3, "fingerprints": {}}')


def a_folder_without_records(project: Project) -> None:
    for path in records(project):
        path.unlink()


@pytest.mark.parametrize("older", [older_rows, older_manifests, all_records_of_another_kind, a_folder_without_records,
                                   of_files_of_a_row_each])
def test_an_older_build_directory_is_a_miss(project, older):
    whole = project.artifacts()
    older(project)
    done = project.scons("tile_full=1")
    assert (done.ran, done.errors, project.artifacts()) == ([], "", whole)
    project.write("kernels/a.mlir", module(axpy("a", operation="subf")))
    done = project.scons()
    assert (done.stages, done.errors) == (["read", "tileaa", "tileas", "llvm", "ptx"], "")
    again = project.scons()
    assert (again.ran, again.cached, again.errors) == ([], [], "")


def test_an_older_store_is_a_miss(project):
    """Its folder has the name of its format; a row of another form in a store of this format is a miss as well."""
    whole = project.artifacts()
    present = Path(local.folder_of(project.store))
    present.rename(present.with_name("v0"))
    project.delete_build()
    done = project.scons()
    assert (len(done.ran), done.errors, project.artifacts()) == (10, "", whole)
    assert present.is_dir() and present.with_name("v0").is_dir()


def test_rows_without_new_fields_are_read_and_other_forms_a_miss(tmp_path):
    items: list[str] = []
    store = ArtifactStore(str(tmp_path / "store"), items.append)
    whole = Record({".cuda_tile.mlir": b"text"}, {"diagnostics": []}).to_bytes()
    (size,) = struct.unpack_from("<I", whole)
    head = json.loads(whole[4 : 4 + size])
    del head["seconds"]
    for key, fields, is_read in (("read:old", head, True), ("read:older", {"artifacts": head["artifacts"]}, False)):
        text = json.dumps(fields).encode()
        store.put(key, struct.pack("<I", len(text)) + text + b"text")
        assert (store.get_record(key) is not None) == is_read
    store.close()
