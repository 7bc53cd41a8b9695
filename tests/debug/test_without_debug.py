"""Without line or debug information an artifact does not depend on the locations of its input."""

import re
from pathlib import Path

import pytest

import tileiras
from tileiras import api
from tileiras.ir import UNKNOWN_LOC, FileLineColLoc
from tileiras.passes.synthesize_debug_info_scopes import SynthesizeDebugInfoScopes

EXAMPLES = Path(__file__).parents[2] / "examples"


def variants(name):
    """The same kernel unchanged, without locations, and with other ones."""
    yield api.parse(EXAMPLES / name)
    bare = api.parse(EXAMPLES / name)
    for op in bare.walk():
        op.location = UNKNOWN_LOC
    yield bare
    moved = api.parse(EXAMPLES / name)
    for number, op in enumerate(moved.walk()):
        op.location = FileLineColLoc("moved.py", 7 * number, 1)
    SynthesizeDebugInfoScopes().run(moved, None)
    yield moved


KERNELS = ["bytecode/softmax.tileirbc", "bytecode/matmul_f16.tileirbc", "kernels/spin_lock.mlir"]


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("opt_level", [0, 3])
def test_artifacts_are_the_same_with_and_without_locations(name, opt_level):
    artifacts = []
    for module in variants(name):
        result = {
            emit: tileiras.compile(module, gpu_name="sm_90", emit=emit, opt_level=opt_level)
            for emit in ("tileaa", "tileas", "ptx")
        }
        artifacts.append([(a.data, a.kernels[0].artifacts) for a in result.values()])
    assert artifacts[0] == artifacts[1] == artifacts[2]


def test_bytecode_without_debug_information_gets_none(tmp_path):
    module = api.parse(EXAMPLES / "bytecode/softmax.tileirbc")
    for op in module.walk():
        op.location = UNKNOWN_LOC
    data = tileiras.compile(module, gpu_name="sm_90", emit="bytecode").data
    plain = tileiras.compile(data, gpu_name="sm_90", emit="ptx").data
    assert tileiras.compile(data, gpu_name="sm_90", emit="ptx", lineinfo=True).data == plain


DIRECTIVE = re.compile(r"\s*(\.loc\s.*|\.file\s.*|\.section\s.*|\$L__(tmp|func_begin|func_end)\d+:)")


@pytest.mark.parametrize("name", ["bytecode/matmul_f16.tileirbc", "kernels/prefix_sum.mlir"])
@pytest.mark.parametrize("opt_level", [0, 3])
def test_line_information_changes_no_instruction(name, opt_level):
    def instructions(**options):
        text = tileiras.compile(EXAMPLES / name, gpu_name="sm_90", opt_level=opt_level, **options).text
        return [line for line in text.split("\n") if line.strip() and not DIRECTIVE.fullmatch(line)]

    plain, located = instructions(), instructions(lineinfo=True)
    assert located == plain
