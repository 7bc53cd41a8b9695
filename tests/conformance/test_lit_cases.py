"""Counts and messages of the runner of text tests, on files written here."""

import importlib.util
from pathlib import Path

import pytest

SPEC = importlib.util.spec_from_file_location("lit_cases", Path(__file__).with_name("lit_cases.py"))
lit_cases = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(lit_cases)

GOOD = """// RUN: cuda-tile-opt %s -verify-diagnostics -split-input-file

cuda_tile.module @one {
  testing$func @f(%a: tile<i32>) -> tile<i32> {
    return %a : tile<i32>
  }
}

// -----

cuda_tile.module @two {
  // expected-error @below {{entry op must not return values}}
  entry @k() -> tile<i32> {}
}

// -----

cuda_tile.module @three {
  // expected-warning @below {{unknown hint key sm_1}}
  entry @k() optimization_hints=<sm_1 = {occupancy = 1}> {}
}
"""
PRINTED = """// RUN: cuda-tile-opt %s | cuda-tile-opt | FileCheck %s
// CHECK: entry @k(%arg0: tile<f32>)
cuda_tile.module @m {
  entry @k(%x: tile<f32>) {}
}
"""


def _figures(tmp_path, capsys, files, *options):
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    code = lit_cases.main([str(tmp_path), *options])
    rows = [line.strip("| ").split("|") for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
    names = lit_cases.Figures.NAMES
    return code, dict(zip(names, [int(cell) if cell.strip() else 0 for cell in (rows[-1] + [""] * 13)[1:13]]))


def test_counts_cases_by_kind(tmp_path, capsys):
    hints = GOOD.replace("-verify", "-Wunsupported-hints -verify", 1)
    code, result = _figures(tmp_path, capsys, {"a.mlir": hints, "b.mlir": PRINTED})
    assert code == 0
    assert result["positive"] == result["accepted"] == result["round_trips"] == result["bytecode"] == 2
    assert result["negative"] == result["refused"] == result["texts"] == result["exact"] == 1
    assert result["warnings"] == result["warned"] == 1
    assert result["runs"] == result["runs_hold"] == 2


@pytest.mark.parametrize(
    "old, new, short",
    [
        ("entry op must not", "entry op may not", "texts"),  # another text
        ("-> tile<i32> {}", "{}", "refused"),  # nothing wrong with it
        ("@below {{entry", "@above {{entry", "exact"),  # another place
        ("unknown hint key sm_1", "unknown hint key sm_2", "warned"),
        ("return %a : tile<i32>", "return", "accepted"),
    ],
)
def test_failures_are_counted(tmp_path, capsys, old, new, short):
    hints = GOOD.replace("-verify", "-Wunsupported-hints -verify", 1)
    code, result = _figures(tmp_path, capsys, {"a.mlir": hints.replace(old, new, 1)})
    assert result[short] == 0 and result["runs_hold"] == 0
    assert code == 1


def test_a_difference_with_a_reason_is_no_failure(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(lit_cases.KNOWN, "a.mlir #1", "it says so")
    text = GOOD.replace("-verify", "-Wunsupported-hints -verify", 1).replace("op must not", "op may not", 1)
    code, result = _figures(tmp_path, capsys, {"a.mlir": text})
    assert code == 0 and result["texts"] == 0


def test_needs_a_folder(capsys):
    assert lit_cases.main([]) == 2
    assert "FOLDER" in capsys.readouterr().err
