"""Remarks: their formats, filters, and the way through the artifact store."""

import json
import re
from pathlib import Path

import pytest

from tests.kernels.dots import matmul
from tileiras import api, locations
from tileiras.codegen import ptx, toolkit
from tileiras.codegen.kernel_remarks import remark_on_kernels
from tileiras.codegen.kernel_resources import kernel_resources
from tileiras.codegen.ptxas import Resources
from tileiras.diagnostics import CompileError, Diagnostic, DiagnosticEngine, Severity, to_json
from tileiras.ir import FileLineColLoc
from tileiras.remarks import Remark, RemarkFilter, remarks_of, render_command_line, to_yaml


@pytest.fixture
def ptxas():
    path = toolkit.find_program("ptxas")
    if path is None:
        pytest.skip("needs ptxas")
    return path


def load(line, column, function="k", **more):
    place = FileLineColLoc("k.py", line, column)
    arguments = {"Instruction": "Ldgsts instruction"}
    name = "RemarkMemoryLoadInstructionSelected"
    return Remark("passed", name, place, arguments=arguments, function=function, **more)


def dot(line):
    place = FileLineColLoc("k.py", line, 16)
    return Remark("failed", "RemarkTensorCoreFMA", place, arguments={"Shape": "[1, 1, 1]"}, function="k", reason="u8")


def test_command_line_format_is_grouped_by_function_and_category_in_the_order_of_lines():
    text = render_command_line(remarks_of([dot(3), load(9, 2), load(4, 8), load(4, 8), load(1, 1, "other")]))
    assert text == (
        "in function: k:\n\n"
        "  category: Memory\n"
        "    remark[passed]: Load instruction selected\n"
        '      --> "k.py":4:8\n'
        "       |\n"
        "       = name: RemarkMemoryLoadInstructionSelected\n"
        "       = note: Instruction = Ldgsts instruction\n\n"
        "    remark[passed]: Load instruction selected\n"
        '      --> "k.py":9:2\n'
        "       |\n"
        "       = name: RemarkMemoryLoadInstructionSelected\n"
        "       = note: Instruction = Ldgsts instruction\n\n\n"
        "  category: Tensor-core\n"
        "    remark[failed]: MMA operation failed to optimize to use Tensor Cores, "
        "it is using FMA instructions instead\n"
        '      --> "k.py":3:16\n'
        "       |\n"
        "       = name: RemarkTensorCoreMMA\n"
        "       = note: Shape = [1, 1, 1]\n"
        "       = reason: u8\n\n\n"
        "in function: other:\n\n"
        "  category: Memory\n"
        "    remark[passed]: Load instruction selected\n"
        '      --> "k.py":1:1\n'
        "       |\n"
        "       = name: RemarkMemoryLoadInstructionSelected\n"
        "       = note: Instruction = Ldgsts instruction\n\n"
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
        "  - Reason:      u8\n"
        "...\n"
    )


def test_json_names_kind_category_and_place():
    (row,) = map(json.loads, to_json([load(4, 8)]).splitlines())
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
    }


@pytest.mark.parametrize(
    "asked, memory, tensorcore",
    [
        ([("", "all")], True, True),
        ([("", "memory")], True, False),
        ([("passed", "all")], True, False),
        ([("failed", "tensorcore")], False, True),
        ([("", "all"), ("passed", "none")], False, True),
        ([("", "none")], False, False),
    ],
)
def test_filters_choose_by_kind_and_category(asked, memory, tensorcore):
    chosen = RemarkFilter.parse(asked)
    assert (chosen.admits(load(1, 1)), chosen.admits(dot(1))) == (memory, tensorcore)
    assert chosen.any == (memory or tensorcore)
    assert chosen.admits(Diagnostic(Severity.WARNING, None, "a warning"))


def test_a_category_that_there_is_not_is_refused():
    with pytest.raises(CompileError, match="Cannot find option named 'speed'!"):
        RemarkFilter.parse([("passed", "speed")])


def test_remarks_come_back_from_the_store_as_they_were():
    made = [load(4, 8, reason="aligned to 4 bytes", notes=[Diagnostic.note(None, "here")]), dot(3)]
    stored = json.loads(json.dumps(locations.encode_diagnostics(made, "k.py")))
    found = locations.decode_diagnostics(stored, "k.py")
    assert [(str(d), d.stored(), [str(n) for n in d.notes]) for d in found] == [
        (str(d), d.stored(), [str(n) for n in d.notes]) for d in made
    ]


SAXPY = Path(__file__).parents[1] / "examples" / "saxpy.mlir"


def test_remarks_change_nothing_and_are_asked_for():
    silent = api.compile(SAXPY, gpu_name="sm_90", emit="ptx")
    told = api.compile(SAXPY, gpu_name="sm_90", emit="ptx", emit_remarks=True)
    assert silent.data == told.data and silent.diagnostics == []
    assert {remark.name for remark in remarks_of(told.diagnostics)} == {
        "RemarkMemoryLoadInstructionSelected",
        "RemarkMemoryStoreInstructionSelected",
        "RemarkMemorySmemAllocated",
        "RemarkKernelLaunch",
    }


def test_kernels_say_what_they_take(ptxas):
    made = api.compile(SAXPY, gpu_name="sm_90", emit="cubin", emit_remarks=True)
    found = {remark.name: remark for remark in remarks_of(made.diagnostics) if remark.category == "kernel"}
    used = json.loads(made.kernels[0].artifacts[".resources.json"])["kernels"]["saxpy"]
    resources = found["RemarkKernelResources"]
    assert resources.text == f"Kernel resources: {used['registers']} registers a thread, 0 bytes of shared memory"
    assert resources.position.line == 7 and resources.function == "saxpy"
    assert "Occupancy: " in found["RemarkKernelOccupancy"].text


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
    said = [(remark.function, remark.kind, remark.text, remark.reason) for remark in engine.diagnostics]
    assert said == [
        ("k", "analysis", "Kernel resources: 64 registers a thread, 204800 bytes of shared memory", ""),
        ("k", "missed", "Registers spilled: 8 bytes stored, 12 bytes loaded",
         "1024 threads a CTA leave 64 registers to each"),
        ("k", "analysis", "Occupancy: 32 of 64 warps", "limited by 64 registers a thread"),
        ("alone", "analysis", "Kernel resources: 255 registers a thread, at least 1024 bytes of shared memory", ""),
        ("alone", "missed", "Registers spilled: 4 bytes stored, 4 bytes loaded",
         "a thread has at most 255 registers"),
    ]  # fmt: skip


EXAMPLES = sorted(
    path for folder in ("", "kernels") for path in (Path(__file__).parents[1] / "examples" / folder).glob("*.mlir")
)
_ACCESS = re.compile(r"\b(ld\.global|st\.global|ld|st)([.\w]*?)(?:\.(v\d))?\.[bfsu](8|16|32|64)\b")


def widths(ptx, instruction):
    """Bytes of the accesses in a PTX text that an instruction of a remark may stand for."""
    if instruction == "cp.async":
        return {int(size) for size in re.findall(r"cp\.async\.c[ag]\.shared\.global \[[^]]*\], \[[^]]*\], (\d+)", ptx)}
    name = instruction.partition(".")[0]
    found = set()
    for op, qualifiers, vector, bits in _ACCESS.findall(ptx):
        spaces = op + qualifiers
        if op.startswith(name) and ".shared" not in spaces and ".param" not in spaces and ".local" not in spaces:
            found.add(int(vector[1:] or 1 if vector else 1) * int(bits) // 8)
    return found


@pytest.mark.parametrize("gpu", ["sm_80", "sm_120"])
@pytest.mark.parametrize("source", [*EXAMPLES, "matmul"], ids=lambda source: getattr(source, "stem", source))
def test_what_is_said_to_be_chosen_stands_in_the_ptx(source, gpu, tmp_path):
    if source == "matmul":
        source = tmp_path / "matmul.mlir"
        source.write_text(matmul((64, 64, 64)).text)
    names = re.findall(r"entry @(\w+)", source.read_text())
    assert names
    for name in names:
        made = api.compile(source, gpu_name=gpu, entry=name, emit="ptx", emit_remarks=True)
        said = remarks_of(made.diagnostics)
        assert any(remark.arguments.get("Instruction") == "st.global" for remark in said)
        # Of runs of fewer bytes LLVM may make wider ones, and a tile at an edge goes element by element.
        for remark in said:
            instruction = remark.arguments.get("Instruction")
            if instruction in ("ld.global", "st.global", "cp.async"):
                width = int(remark.arguments["Width"].split()[0])
                assert width in widths(made.text, instruction), (str(remark), made.text)
            elif instruction == "mma.sync":
                shape = "m{}n{}k{}".format(*json.loads(remark.arguments["Shape"]))
                assert f"mma.sync.aligned.{shape}.row.col" in made.text, str(remark)
        memory = [remark for remark in said if remark.name == "RemarkMemorySmemAllocated"]
        shared = json.loads(made.kernels[0].artifacts[".json"])["kernels"][0]["shared_memory"]
        assert [remark.text for remark in memory] == [f"Shared memory allocated: {shared} bytes"]
