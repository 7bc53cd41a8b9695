"""Remarks: their formats, filters, and the way through the artifact store."""

import json
import re
from pathlib import Path

import pytest

from tests.kernels.dots import matmul
from tileiras import api
from tileiras.codegen import ptx, toolkit
from tileiras.codegen.kernel_remarks import remark_on_kernels
from tileiras.codegen.kernel_resources import kernel_resources
from tileiras.codegen.ptxas import Resources
from tileiras.diagnostics import CompileError, Diagnostic, DiagnosticEngine, Severity, to_json
from tileiras.diagnostics.remarks import (
    Remark,
    RemarkFilter,
    read_remarks,
    remarks_json,
    remarks_of,
    render_command_line,
    to_yaml,
)
from tileiras.ir import FileLineColLoc
from tileiras.reasons import Reason
from tileiras.stages import locations


@pytest.fixture
def ptxas():
    path = toolkit.find_program("ptxas")
    if path is None:
        pytest.skip("needs ptxas")
    return path


def load(line, column, function="k", cause=None, **more):
    place = FileLineColLoc("k.py", line, column)
    arguments = {"Instruction": "Ldgsts instruction"}
    reason = Reason("access.load", bytes=4, cause=cause)
    return Remark(reason, place, arguments=arguments, function=function, **more)


def dot(line):
    place = FileLineColLoc("k.py", line, 16)
    reason = Reason("dots.fma", cause=Reason("dots.batch", instruction="wgmma"))
    return Remark(reason, place, arguments={"Shape": "[1, 1, 1]"}, function="k")


def test_remarks_are_grouped_by_function_and_category():
    text = render_command_line(remarks_of([dot(3), load(9, 2), load(4, 8), load(4, 8), load(1, 1, "other")]))
    assert text == (
        "in function: k:\n\n"
        "  category: Memory\n"
        "    remark[passed]: Load instruction selected\n"
        '      --> "k.py":4:8\n'
        "       |\n"
        "       = name: RemarkMemoryLoadInstructionSelected\n"
        "       = note: Instruction = Ldgsts instruction\n"
        "       = code: access.load bytes=4\n\n"
        "    remark[passed]: Load instruction selected\n"
        '      --> "k.py":9:2\n'
        "       |\n"
        "       = name: RemarkMemoryLoadInstructionSelected\n"
        "       = note: Instruction = Ldgsts instruction\n"
        "       = code: access.load bytes=4\n\n\n"
        "  category: Tensor-core\n"
        "    remark[failed]: MMA operation failed to optimize to use Tensor Cores, "
        "it is using FMA instructions instead\n"
        '      --> "k.py":3:16\n'
        "       |\n"
        "       = name: RemarkTensorCoreMMA\n"
        "       = note: Shape = [1, 1, 1]\n"
        "       = reason: wgmma is not used for batches\n"
        "       = code: dots.fma; dots.batch instruction=wgmma\n\n\n"
        "in function: other:\n\n"
        "  category: Memory\n"
        "    remark[passed]: Load instruction selected\n"
        '      --> "k.py":1:1\n'
        "       |\n"
        "       = name: RemarkMemoryLoadInstructionSelected\n"
        "       = note: Instruction = Ldgsts instruction\n"
        "       = code: access.load bytes=4\n\n"
    )


def test_yaml_is_a_document_for_each_remark():
    assert to_yaml(remarks_of([dot(3)])) == (
        "--- !Failure\n"
        "Pass:            Tensor-core\n"
        "Name:            RemarkTensorCoreMMA\n"
        "DebugLoc:        { File: 'k.py', Line: 3, Column: 16 }\n"
        "Function:        k\n"
        "Args:\n"
        "  - RemarkId:    1\n"
        "  - Remark:      MMA operation failed to optimize to use Tensor Cores, it is using FMA instructions instead\n"
        "  - Shape:       '[1, 1, 1]'\n"
        "  - Reason:      wgmma is not used for batches\n"
        "  - Code:        dots.fma; dots.batch instruction=wgmma\n"
        "...\n"
    )


def test_json_names_kind_category_and_place():
    cause = Reason("access.base-alignment", bytes=4)
    (row,) = map(json.loads, to_json([load(4, 8, cause=cause)]).splitlines())
    assert row == {
        "severity": "remark",
        "message": "Load instruction selected",
        "file": "k.py",
        "line": 4,
        "column": 8,
        "kind": "passed",
        "category": "memory",
        "name": "RemarkMemoryLoadInstructionSelected",
        "function": "k",
        "arguments": {"Instruction": "Ldgsts instruction"},
        "code": "access.load",
        "code_arguments": {"bytes": 4},
        "reason": str(cause),
        "causes": [{"code": "access.base-alignment", "code_arguments": {"bytes": 4}}],
    }
    assert read_remarks(remarks_json([load(4, 8, cause=cause)]))[0].said == Reason("access.load", bytes=4, cause=cause)


@pytest.mark.parametrize(
    "asked, memory, tensorcore",
    [
        ([("", "all")], True, True),
        ([("", "memory")], True, False),
        ([("passed", "all")], True, False),
        ([("failed", "tensorcore")], False, True),
        ([("", "all"), ("passed", "none")], False, True),
        ([("", "none")], False, False),
        ([("", "access.load")], True, False),
        ([("", "dots.batch")], False, True),
        ([("", "access.*"), ("", "dots.*")], True, True),
        ([("failed", "access.*")], False, False),
        ([("", "access.store")], False, False),
    ],
)
def test_filters_choose_by_kind_category_and_code(asked, memory, tensorcore):
    chosen = RemarkFilter.parse(asked)
    assert (chosen.admits(load(1, 1)), chosen.admits(dot(1))) == (memory, tensorcore)
    assert chosen.any == (asked[-1][1] != "none" or memory or tensorcore)
    assert chosen.admits(Diagnostic(Severity.WARNING, None, "a warning"))


def test_an_unknown_category_is_refused():
    for word in ("speed", "access.speed", "speed.*", "access.", "*"):
        with pytest.raises(CompileError, match=re.escape(f"Cannot find option named '{word}'!")):
            RemarkFilter.parse([("passed", word)])


def test_remarks_come_back_from_the_store_as_they_were():
    cause = Reason("access.base-alignment", bytes=4)
    items = [load(4, 8, cause=cause, notes=[Diagnostic.note(None, "here")]), dot(3)]
    stored = json.loads(json.dumps(locations.encode_diagnostics(items, "k.py"), sort_keys=True))
    diagnostics = locations.decode_diagnostics(stored, "k.py")
    assert [(str(d), d.as_values(), [str(n) for n in d.notes]) for d in diagnostics] == [
        (str(d), d.as_values(), [str(n) for n in d.notes]) for d in items
    ]


SAXPY = Path(__file__).parents[2] / "examples" / "saxpy.mlir"


def test_remarks_change_nothing_and_are_asked_for():
    silent = api.compile(SAXPY, gpu_name="sm_90", emit="ptx")
    result = api.compile(SAXPY, gpu_name="sm_90", emit="ptx", emit_remarks=True)
    assert silent.data == result.data and silent.diagnostics == []
    assert {remark.name for remark in remarks_of(result.diagnostics)} == {
        "RemarkMemoryLoadInstructionSelected",
        "RemarkMemoryStoreInstructionSelected",
        "RemarkMemorySmemAllocated",
        "RemarkKernelLaunch",
    }


def test_kernels_report_their_resources(ptxas):
    value = api.compile(SAXPY, gpu_name="sm_90", emit="cubin", emit_remarks=True)
    result = {remark.name: remark for remark in remarks_of(value.diagnostics) if remark.category == "kernel"}
    used = json.loads(value.kernels[0].artifacts[".resources.json"])["kernels"]["saxpy"]
    resources = result["RemarkKernelResources"]
    assert resources.said == Reason("kernel.resources", registers=used["registers"], shared=0)
    assert resources.position.line == 7 and resources.function == "saxpy"
    assert result["RemarkKernelOccupancy"].code == "kernel.occupancy"


def test_spills_are_missed_registers():
    text = (
        ".version 7.8\n.target sm_90\n.address_size 64\n.extern .shared .align 16 .b8 m[];\n"
        ".visible .entry k() .reqntid 1024 {\nret;\n}\n"
        ".visible .entry alone() {\nret;\n}\n"
    )
    engine = DiagnosticEngine()
    used = {"k": Resources(64, 16, 8, 12, 1, 0, 0), "alone": Resources(255, 16, 4, 4, 0, 1024, 0)}
    kernels = kernel_resources(ptx.parse(text), text, used, {"k": 200 * 1024})
    remark_on_kernels(kernels, engine, {"k": FileLineColLoc("k.py", 7, 1)})
    result = [(remark.function, remark.kind, remark.said.spelled()) for remark in engine.diagnostics]
    assert result == [
        ("k", "analysis", "kernel.resources registers=64 shared=204800"),
        ("k", "missed", "kernel.spills stored=8 loaded=12; kernel.registers-by-threads threads=1024 registers=64"),
        ("k", "analysis", "kernel.occupancy warps=32 most=64; kernel.limited-by-registers registers=64"),
        ("alone", "analysis", "kernel.resources-at-least registers=255 shared=1024"),
        ("alone", "missed", "kernel.spills stored=4 loaded=4; kernel.most-registers most=255"),
    ]


EXAMPLES = sorted(
    path for folder in ("", "kernels") for path in (Path(__file__).parents[2] / "examples" / folder).glob("*.mlir")
)
_ACCESS = re.compile(r"\b(ld\.global|st\.global|ld|st)([.\w]*?)(?:\.(v\d))?\.[bfsu](8|16|32|64)\b")


def widths(ptx, instruction):
    """Bytes of the accesses in a PTX text that can be the instruction of a remark."""
    if instruction == "cp.async":
        return {int(size) for size in re.findall(r"cp\.async\.c[ag]\.shared\.global \[[^]]*\], \[[^]]*\], (\d+)", ptx)}
    name = instruction.partition(".")[0]
    result = set()
    for op, qualifiers, vector, bits in _ACCESS.findall(ptx):
        spaces = op + qualifiers
        if op.startswith(name) and ".shared" not in spaces and ".param" not in spaces and ".local" not in spaces:
            result.add(int(vector[1:] or 1 if vector else 1) * int(bits) // 8)
    return result


@pytest.mark.parametrize("gpu", ["sm_80", "sm_120"])
@pytest.mark.parametrize("source", [*EXAMPLES, "matmul"], ids=lambda source: getattr(source, "stem", source))
def test_reported_choices_are_in_the_ptx(source, gpu, tmp_path):
    if source == "matmul":
        source = tmp_path / "matmul.mlir"
        source.write_text(matmul((64, 64, 64)).text)
    names = re.findall(r"entry @(\w+)", source.read_text())
    assert names
    for name in names:
        result = api.compile(source, gpu_name=gpu, entry=name, emit="ptx", emit_remarks=True)
        remarks = remarks_of(result.diagnostics)
        assert any(remark.arguments.get("Instruction") == "st.global" for remark in remarks)
        # LLVM may merge shorter runs into wider accesses, and a tile at an edge is accessed element by element.
        for remark in remarks:
            instruction = remark.arguments.get("Instruction")
            if instruction in ("ld.global", "st.global", "cp.async"):
                width = int(remark.arguments["Width"].split()[0])
                assert width in widths(result.text, instruction), (str(remark), result.text)
            elif instruction == "mma.sync":
                shape = "m{}n{}k{}".format(*json.loads(remark.arguments["Shape"]))
                assert f"mma.sync.aligned.{shape}.row.col" in result.text, str(remark)
        memory = [remark for remark in remarks if remark.name == "RemarkMemorySmemAllocated"]
        shared = json.loads(result.kernels[0].artifacts[".json"])["kernels"][0]["shared_memory"]
        assert [remark.code_arguments["bytes"] for remark in memory] == [shared]
