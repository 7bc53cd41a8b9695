"""Two assemblers side by side: the functions that differ, and the message where an assembler is absent."""

from __future__ import annotations

import json
import os
import sys

import pytest

import tileiras
from tileiras.check import assemblers
from tileiras.cli.tileiras_check import main
from tileiras.codegen import toolkit

SOURCE = """cuda_tile.module @m {{
  entry @{name}(%p: tile<ptr<f32>>) {{
    %x, %t = load_ptr_tko weak %p : tile<ptr<f32>> -> tile<f32>, token
    %y = addf %x, %x : tile<f32>
    %u = store_ptr_tko weak %p, %y token=%t : tile<ptr<f32>>, tile<f32> -> token
    return
  }}
}}
"""


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "k.mlir"
    path.write_text(SOURCE.format(name="twice"))
    return str(path)


@pytest.fixture
def other(tmp_path, ptxas):
    """An assembler that makes other code: one that optimises nothing."""
    path = tmp_path / "ptxas"
    path.write_text(
        f'#!{sys.executable}\nimport os, sys\nwords = sys.argv[1:]\nif "--version" not in words:\n'
        f'    words[words.index("--opt-level") + 1] = "0"\nos.execv({ptxas!r}, [{ptxas!r}, *words])\n'
    )
    path.chmod(0o755)
    return str(path)


def test_equal_code_has_no_function_that_differs(source, ptxas, capsys):
    version = assemblers.find(ptxas).version
    assert main([source, "--gpu-name", "sm_90", "--ptxas-versions", f"{ptxas},{version}"]) == 0
    printed = capsys.readouterr().out
    assert printed.count(f"ptxas {version}") == 2 and "functions that differ: none" in printed


@pytest.mark.skipif(os.name == "nt", reason="a program in Python")
def test_functions_that_differ_are_named(source, ptxas, other, capsys):
    assert main([source, "--gpu-name", "sm_90", "--ptxas-versions", f"{ptxas},{other}", "--json"]) == 0
    ((function,),) = [each["functions"] for each in json.loads(capsys.readouterr().out)]
    assert function["name"] == "twice" and function["differs"] and function["first_difference"] is not None
    assert all(row["registers"] > 0 for row in function["resources"])
    if toolkit.find_program("nvdisasm") is not None:
        assert function["instructions"][0] < function["instructions"][1]
    assert main([source, "--gpu-name", "sm_90", "--ptxas-versions", f"{ptxas},{other}"]) == 0
    assert "functions that differ: twice" in capsys.readouterr().out


def test_a_function_differs_by_code_alone(ptxas):
    """Equal resources are no equal code."""
    one, two = (
        tileiras.compile(SOURCE.format(name="k").replace("addf", operation), gpu_name="sm_90").text
        for operation in ("addf", "mulf")
    )
    by = assemblers.find(ptxas)
    codes = [assemblers._code(assemblers.ptxas.assemble(text, "sm_90").cubin)["k"] for text in (one, two)]
    (same,) = assemblers.compare(one, "sm_90", 3, [by, by])
    assert assemblers._first_difference(codes) is not None and not same.differs


@pytest.mark.parametrize("words", ["7.5,7.5", "13,", "13.5", "./nowhere/ptxas,./nowhere/ptxas"])
def test_missing_packages_are_reported(source, words, capsys):
    assert main([source, "--gpu-name", "sm_90", "--ptxas-versions", words]) in (1, 2)
    err = capsys.readouterr().err
    assert "Traceback" not in err and ("not installed" in err or "two are compared" in err or "nowhere" in err)
