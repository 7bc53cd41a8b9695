"""A report agrees with the compiler's own tools: lines, remarks, resources, registers, banks, time."""

from __future__ import annotations

import json
import re
from xml.etree import ElementTree

import numpy as np
import pytest
from reports import EXAMPLES, options

import tileiras
from tileiras.layout.linear_layout import LinearLayout
from tileiras.report import charts, collect, page
from tileiras.report.figures import answers, differences, figures
from tileiras.report.model import LEVELS, as_json


def lines_with(kernel, level, text):
    return [n for n, line in enumerate(kernel.levels[level].text.split("\n")) if text in line]


def places_of(kernel, level, number):
    return [kernel.places[place] for place in kernel.levels[level].places[number]]


def test_levels_of_a_python_kernel_lead_to_its_source_lines(matmul):
    (kernel,) = matmul.kernels
    assert tuple(kernel.levels) == ("cuda_tile", "tileaa", "tileas", "llvm", "ptx", "sass", "source")
    (dot,) = lines_with(kernel, "source", "ct.mma(")
    line = dot + 1
    for level, text in (("cuda_tile", "mmaf"), ("tileas", "async.dot"), ("ptx", "wgmma.mma_async"), ("sass", "HGMMA")):
        lines = lines_with(kernel, level, text)
        assert lines, level
        for number in lines:
            innermost = places_of(kernel, level, number)[0]
            shown = level, kernel.levels[level].text.split("\n")[number]
            assert (innermost.file, innermost.line) == (kernel.source, line), shown


@pytest.mark.parametrize("level", LEVELS)
def test_every_line_of_a_level_has_its_row_of_places(matmul, level):
    (kernel,) = matmul.kernels
    result = kernel.levels[level]
    assert len(result.places) == len(result.text.split("\n"))
    assert any(result.places)
    assert all(0 <= place < len(kernel.places) for row in result.places for place in row)


def test_loads_and_stores_of_text_lead_to_their_operations(saxpy):
    (kernel,) = saxpy.kernels
    for source, machine in (("store", "STG"), ("load", "LDG")):
        lines = {n + 1 for n in lines_with(kernel, "source", source)}
        result = lines_with(kernel, "sass", machine)
        assert result
        assert {places_of(kernel, "sass", number)[0].line for number in result} <= lines


def test_machine_instructions_of_a_report_are_those_of_the_cubin(matmul):
    from tileiras.codegen import machine_code

    (kernel,) = matmul.kernels
    cubin = tileiras.compile(EXAMPLES / "matmul_f16.py", gpu_name="sm_90", emit="cubin").data
    code = machine_code.read(cubin, "matmul_f16")
    # A build's cubin has no tile launch: its first and last instructions differ by one or two.
    assert abs(len(kernel.memory.registers) - len(code.instructions)) < 0.05 * len(code.instructions)
    assert max(count for _, count in kernel.memory.registers) <= kernel.memory.allocated


def test_figures_are_those_of_the_artifacts(matmul, saxpy):
    for report in (matmul, saxpy):
        for kernel in report.kernels:
            result = {each.name: each.value for each in figures(kernel)}
            assert result["registers of a thread"] == kernel.resources["registers"]
            assert result["CTAs on an SM"] == kernel.resources["occupancy"]["ctas"]
            assert result["shared memory of a CTA"] == kernel.resources["shared"]
            assert result["machine instructions"] == len(
                [line for line in kernel.levels["sass"].text.split("\n") if "/*" in line and "NOP" not in line]
            )


def test_the_time_is_that_of_the_estimate(saxpy):
    (kernel,) = saxpy.kernels
    args = [np.ones(3000, np.float32), np.ones(3000, np.float32), np.float32(2), 3000]
    ptx = kernel.levels["ptx"].text
    result = tileiras.sim.estimate(ptx, "saxpy", 3, args, gpu="H200", metadata=kernel.launch)
    assert kernel.timing.estimate == result.to_json()
    assert {(each.line, each.share) for each in kernel.timing.stalls} == {
        (row.line, row.share) for row in result.by_source()
    }
    assert sum(len(track["spans"]) for track in kernel.timing.tracks) > 0


def test_pipes_are_those_of_the_estimate_below_the_timeline():
    from tileiras.report.timing import Launch

    def matrix(rows: int, columns: int) -> list:
        return [np.ones((rows, columns), np.float16), rows, columns, columns, 1]

    args = [*matrix(128, 512), *matrix(512, 128), *matrix(128, 128)]
    specialized = options(**{"pipeline-strategy": "warp-specialize", "tensor-maps": "host"})
    launch = Launch(None, (1, 1), args, "H200")
    (kernel,) = collect.of_source(str(EXAMPLES / "matmul_f16.py"), specialized, launch=launch).kernels
    result = tileiras.sim.estimate(
        kernel.levels["ptx"].text, "matmul_f16", (1, 1), args, gpu="H200", metadata=kernel.launch
    )
    (pipe,) = result.pipes
    (value,) = as_json(kernel)["timing"]["estimate"]["pipes"]
    assert value == result.to_json()["pipes"][0]
    assert value["levels"] == [list(each) for each in pipe.levels]
    drawing = ElementTree.fromstring(charts.timeline(kernel.timing))
    (line,) = [each for each in drawing.iter() if each.get("class") == "level"]
    points = [tuple(map(float, point.split(","))) for point in line.get("points").split()]
    heights = [y for _, y in points[::2]]
    full, none = min(heights), max(heights)
    most = max(level for _, level in pipe.levels)
    assert [round((none - y) / (none - full) * most) for y in heights] == [level for _, level in pipe.levels]
    assert any(each.text == f"{pipe.full:.3g} of {pipe.stages} stages full on average" for each in drawing.iter())


def test_remarks_of_a_report_are_those_of_the_compiler(matmul):
    (kernel,) = matmul.kernels
    from tileiras.diagnostics.remarks import Remark

    diagnostics = tileiras.api.compile(
        EXAMPLES / "matmul_f16.py", gpu_name="sm_90", emit="llvm", emit_remarks=True
    ).diagnostics
    codes = {
        (each.code, str(each.code_arguments), each.position.line) for each in diagnostics if isinstance(each, Remark)
    }
    shown = {
        (each.code, str(each.code_arguments), kernel.places[each.places[0]].line)
        for each in kernel.choices if each.places
    }  # fmt: skip
    assert codes and codes <= shown


def test_the_arena_is_that_of_tileas(matmul):
    (kernel,) = matmul.kernels
    rings = [area for area in kernel.memory.areas if area.kind == "ring"]
    assert [area.offset for area in rings] == [0, 65536]
    text = kernel.levels["tileas"].text.split("\n")
    for area in rings:
        assert "alloc_tensor" in text[area.first - 1] and f"offset = {area.offset} :" in text[area.first - 1]
        assert "dealloc_tensor" in text[area.last - 1]
    assert kernel.memory.total == max(area.offset + area.bytes for area in kernel.memory.areas)


def test_layouts_are_those_that_the_types_name(matmul):
    (kernel,) = matmul.kernels
    text = kernel.levels["tileas"].text
    for layout in kernel.layouts:
        name, _, type = layout.name.partition(", ")
        assert f"tensor<{type}, {name}>" in text
        whole = LinearLayout.from_coordinates(layout.bases, layout.shape)
        assert whole.is_surjective
    assert {layout.kind for layout in kernel.layouts} == {"registers", "shared memory"}


def test_bank_conflicts_of_a_buffer_equal_the_emulators(matmul):
    """The swizzles of this kernel have no bank conflicts, in the report and in the emulator."""
    (kernel,) = matmul.kernels
    assert kernel.shared_uses and all(each.wavefronts == each.least for each in kernel.shared_uses)
    arrays = [np.zeros((128, 128), np.float16) for _ in range(3)]
    args = [slot for array in arrays for slot in (array, *array.shape, *(s // 2 for s in array.strides))]
    metadata = {name: value for name, value in kernel.launch.items() if name != "hidden_parameters"}
    result = tileiras.sim.emulate(kernel.levels["ptx"].text, "matmul_f16", (1, 1), args, metadata=metadata, seed=None,
                                  count_bank_conflicts=True)  # fmt: skip
    copies = [number + 1 for number in lines_with(kernel, "ptx", "cp.async.cg")]
    counted = {line: result.bank_wavefronts[line] for line in copies if line in result.bank_wavefronts}
    assert all(entry == least for entry, least in counted.values())


def test_answers_name_the_limit_of_ctas_and_narrow_accesses(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (EXAMPLES / "saxpy.mlir").read_text().replace("assume div_by<16>", "assume div_by<4>")
    assert text != (EXAMPLES / "saxpy.mlir").read_text()
    (tmp_path / "narrow.mlir").write_text(text)
    (kernel,) = collect.of_source("narrow.mlir", options()).kernels
    result = {each.question: each for each in answers(kernel)}
    assert "limited by" in result["Why not more CTAs on an SM?"].answer
    narrow = result["Which access is not vectorised?"]
    assert "moves 4 bytes at once" in narrow.answer and "div_by<16>" in narrow.answer
    assert kernel.places[narrow.places[0]].file == "narrow.mlir"


def test_passes_report_their_changes(matmul):
    (kernel,) = matmul.kernels
    from tileiras.stages import tileas

    changed = {each.name: each for each in kernel.passes}
    # After the decisions the agents are checked; a rule may have chosen them.
    names = [row.name for row in tileas.DECISIONS if not row.asked_by]
    assert [each.name for each in kernel.passes] == [*names, "tileaa-agent-verifier"]
    assert changed["tileas-unspecialized-pipeline"].operations["nv_tileas.async.commit_group"] > 0
    assert "+" in changed["tileas-unspecialized-pipeline"].difference
    assert changed["tileas-slicing"].changed is False


def test_a_report_is_json_and_the_same_each_time(saxpy):
    args = [np.ones(3000, np.float32), np.ones(3000, np.float32), np.float32(2), 3000]
    from tileiras.report.timing import Launch

    again = collect.of_source(str(EXAMPLES / "saxpy.mlir"), options(), launch=Launch(None, (3,), args, "H200"))

    def stable(report):
        data = json.loads(json.dumps(as_json(report)))
        for kernel in data["kernels"]:
            for row in (*kernel["stages"], *kernel["passes"]):
                row["seconds"] = 0  # differs from run to run
        return data

    assert stable(again) == stable(saxpy)


def test_another_build_is_compared_figure_by_figure(matmul):
    other = collect.of_source(str(EXAMPLES / "matmul_f16.py"), options(**{"pipeline-strategy": "none"}))
    (result,) = differences(matmul, other)
    rows = {each.name: each for each in result.figures}
    (before,), (after,) = other.kernels, matmul.kernels
    assert rows["shared memory of a CTA"].before == f"{before.resources['shared']} bytes"
    assert rows["shared memory of a CTA"].after == f"{after.resources['shared']} bytes"
    assert rows["shared memory of a CTA"].change == after.resources["shared"] / before.resources["shared"] - 1
    assert [(each.name, each.before, each.after) for each in result.options] == [
        ("pipeline-strategy", "none", "default")
    ]
    assert {each.level for each in result.texts} == {"tileas", "llvm", "ptx", "sass"}


def test_a_loop_that_has_nothing_to_run_ahead_is_no_obstacle():
    """The compiler still emits the remark."""
    (kernel,) = collect.of_source(str(EXAMPLES / "kernels/conv2d.py"), options(), entries=["conv2d"]).kernels
    assert [choice for choice in kernel.choices if choice.category == "loop" and choice.kind == "missed"]
    assert [each for each in kernel.obstacles if each.kind == "loop"] == []


def test_tensor_memory_columns_are_those_of_the_machine_code():
    source = collect.of_source(str(EXAMPLES / "matmul_f16.py"), options(**{"gpu-name": "sm_100"}))
    (kernel,) = source.kernels
    tiles = kernel.memory.tensor
    # The sum of 128x128 numbers of 32 bits: a number of each of 128 lanes in every column.
    assert [("128x128xf32" in tile.what, tile.columns) for tile in tiles] == [(True, 128)]
    assert re.search(r"tcgen05\.alloc\S* \S+ (\d+);", kernel.levels["ptx"].text)[1] == str(kernel.memory.tensor_columns)
    text = kernel.levels["tileas"].text.split("\n")
    assert "tensor_memory.alloc" in text[tiles[0].first - 1] and "dealloc" in text[tiles[0].last - 1]
    assert f"column = {tiles[0].column} : i32" in text[tiles[0].first - 1]
    drawn = charts.tensor_memory(kernel.memory)
    (block,) = re.findall(r'<rect [^>]*y="([\d.]+)"[^>]*height="([\d.]+)"', drawn)
    share = tiles[0].columns / kernel.memory.tensor_columns
    assert float(block[1]) == pytest.approx(share * 230, abs=0.5)
    assert "Tiles in tensor memory" in page.page(source)
