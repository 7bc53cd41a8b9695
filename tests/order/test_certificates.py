"""Certificates of order as text and data, on their way from nv_tileas to NAME.json, and kernels without a
certificate."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from certificates import built, certificate  # noqa: E402

import tileiras  # noqa: E402
from tests.kernels import summed, tensor_maps  # noqa: E402
from tileiras.build import overrides  # noqa: E402
from tileiras.diagnostics import CompileError  # noqa: E402
from tileiras.order.certificate import Certificate  # noqa: E402

KERNELS = {**summed.OF_ROWS, "shared_sums": summed.shared_sums, "counts": summed.counts, "product": summed.product}


@pytest.mark.parametrize("name", KERNELS)
def test_words_and_data_say_the_same(name):
    result = certificate(KERNELS[name]())
    assert result.outputs
    assert Certificate.from_words(result.words()) == result
    assert Certificate.from_json(json.loads(json.dumps(result.to_json()))) == result


MALFORMED = ["sum kind=dot", "nothing", "output argument=1", "cause op=1 : why", "sum op=x kind=a of=b"]


@pytest.mark.parametrize("line", MALFORMED)
def test_other_words_are_refused(line):
    with pytest.raises(ValueError):
        Certificate.from_words([line])


def test_the_module_and_name_json_agree():
    text = built(summed.row_sums(), emit="tileas").text
    lines = re.search(r"nv_tileas\.order = \[(.*?)\]", text)[1]
    assert Certificate.from_words(re.findall(r'"(.*?)"', lines)) == certificate(summed.row_sums())


def test_lines_of_the_source_are_not_in_it():
    """A comment changes no artifact behind the source."""
    moved = "// a comment\n\n" + summed.shared_sums()
    result = {"lineinfo": True}
    assert certificate(moved) == certificate(summed.shared_sums()) == certificate(summed.shared_sums(), **result)


def test_operations_are_those_of_nv_tileaa():
    (name,) = [each.kind for each in certificate(summed.running_sums()).sums]
    (at,) = [each.op for each in certificate(summed.running_sums()).sums]
    from tileiras.ir import parse_module

    module = parse_module(built(summed.running_sums(), emit="tileaa").text, "k.mlir")
    assert list(module.walk())[at].name == f"nv_tileaa.{name}"


def test_an_edited_module_has_no_certificate(tmp_path):
    """Neither a source behind the decisions nor an override of one of their stages."""
    path = tmp_path / "k.tileas.mlir"
    path.write_text(built(summed.row_sums(), emit="tileas").text)
    assert "order" not in tileiras.compile(path, gpu_name="sm_90").kernels[0].metadata
    described = built(summed.row_sums()).kernels[0].artifacts[".json"]
    for stage, has in (("tileaa", True), ("tileas", False), ("llvm", False), ("ptx", False)):
        (kernel,) = json.loads(overrides.with_overrides(described, [stage]))["kernels"]
        assert ("order" in kernel) is has


def test_tile_blocks_that_multiply_in_pairs_are_unsure(monkeypatch):
    """The grid decides which of two kernels runs."""
    monkeypatch.setattr(tensor_maps, "TILES", (128, 32, 32))
    text = tensor_maps.matmul()
    pairs, alone = (certificate(text, "sm_100", tensor_maps=maps) for maps in ("host", "none"))
    assert pairs.outputs[0].depends()["grid.x"] == "unsure"
    assert "grid" in alone.invariant(alone.outputs[0])
    assert "in pairs of tile blocks" in pairs.sums[0].order
    assert pairs.sums[0].order.startswith(alone.sums[0].order) and pairs.sums[0].key != alone.sums[0].key


# ---- deterministic=require -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["row_sums", "product", "counts"])
def test_a_repeatable_kernel_compiles(name):
    assert built(KERNELS[name](), deterministic="require").text == built(KERNELS[name]()).text


def test_an_unrepeatable_kernel_is_refused_at_its_line():
    text = summed.shared_sums()
    with pytest.raises(CompileError) as error:
        tileiras.compile(text, gpu_name="sm_90", source_name="k.mlir", deterministic="require")
    (diagnostic,) = error.value.diagnostics
    line = text[: text.index("%old, %done")].count("\n") + 1
    assert diagnostic.position.line == line and error.value.code == 5
    assert "deterministic=require: argument 1 may differ from run to run" in diagnostic.message


def test_further_outputs_are_notes():
    path = Path(__file__).resolve().parents[2] / "examples" / "kernels" / "spin_lock.mlir"
    with pytest.raises(CompileError, match="argument 1 may differ from run to run") as error:
        tileiras.compile(path, gpu_name="sm_90", deterministic="require")
    (diagnostic,) = error.value.diagnostics
    assert [note.message.partition(" is not known")[0] for note in diagnostic.notes] == ["argument 2"]


def test_an_undecided_kernel_is_refused():
    path = Path(__file__).resolve().parents[2] / "examples" / "kernels" / "last_block_reduction.mlir"
    with pytest.raises(CompileError, match="argument 4 is not known to be the same from run to run"):
        tileiras.compile(path, gpu_name="sm_90", deterministic="require")
