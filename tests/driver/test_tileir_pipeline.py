"""`tileir{...}`: options, their layers, levels, and that it is the stages' pipeline."""

import importlib.util
import itertools
import json
import re
from pathlib import Path

import pytest

from tests.kernels.dots import Matmul, attention_like, matmul
from tests.kernels.reasons import stated
from tileiras import api
from tileiras.cli import tileiras_opt
from tileiras.cli.tileiras import main
from tileiras.diagnostics import CompileError, DiagnosticEngine
from tileiras.diagnostics.remarks import Remark
from tileiras.driver.tileir_pipeline import OPTIONS, ROWS, TileIRPipelineOptions, build, describe
from tileiras.ir import Pass, PassManager, parse_module, print_op
from tileiras.ir.pass_instrumentation import PassInstrumentation
from tileiras.ir.pass_manager import PassContext
from tileiras.passes import lookup_pass, names
from tileiras.reasons import Reason

KERNEL = matmul((64, 64, 64), steps=4).text
ATTENTION = attention_like(1, rows=64, columns=64, depth=64, steps=4).text


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "k.mlir"
    path.write_text(KERNEL)
    return str(path)


def opt(capsys, *arguments):
    code = tileiras_opt.main(list(arguments))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_every_documented_option_has_type_default_and_consumer():
    documented = {
        "num-warps": 4, "num-ctas": 1, "compute-capability": "sm_80", "opt-level": 2, "v2-opt-level": 0,
        "pipeline-strategy": "none", "index-bitwidth": 32, "unspecialized-pipeline-num-stages": 4, "approx": False,
        "ftz": False, "use-nvgpucomp-libnvvm": False, "emit-line-info": "none", "dynamic-persistent": False,
        "schedule-trace-file": "", "enable-random-delay": False, "rrt-size-threshold": 4096,
        "max-constraint-iterations": 10, "enable-debug-logging": False, "host-triple": "native", "dump-host": "",
    }  # fmt: skip
    assert dict(TileIRPipelineOptions()) == documented
    assert all(option.consumer and option.ours for option in OPTIONS.values())


def test_defaults_are_layered_and_the_command_line_is_on_top():
    options = TileIRPipelineOptions.parse(
        "tileir{opt-level=1, ftz num-warps=8 compute-capability=sm_90}", {"opt-level": 3, "lineinfo": True}
    )
    assert (options["opt-level"], options["ftz"], options["num-warps"]) == (3, True, 8)
    assert options["num-ctas"] == 1
    values = options.compiler_options()
    assert values["gpu-name"] == "sm_90" and values["num-warps"] == 8
    assert "num-ctas" not in values, "a default that nobody asked for does not force what is chosen better"


@pytest.mark.parametrize(
    "text, message",
    [
        ("tileir{speed=3}", "'tileir' has no option 'speed'"),
        ("tileir{num-warp=3}", r"did you mean 'num-warps'\?"),
        ("tileir{num-warps=four}", "'four' value invalid for option 'num-warps' of 'tileir'; accepted: an integer"),
        ("tileir{rrt-size-threshold=-1}", "accepted: an integer that is not negative"),
        ("tileir{ftz=perhaps}", "accepted: true, false"),
        ("tileir{pipeline-strategy=fast}", "accepted: none, unspecialize, warp-specialize"),
        ("tileir(ftz)", r"expected 'tileir\{key=value ...\}'"),
    ],
)
def test_unreadable_files_are_refused(text, message):
    with pytest.raises(CompileError, match=message) as error:
        TileIRPipelineOptions.parse(text)
    assert error.value.code == 2


@pytest.mark.parametrize("text", ["opt-level=4", "num-warps=3", "compute-capability=sm_42"])
def test_values_out_of_range_exit_with_2(capsys, source, text):
    code, _, errors = opt(capsys, source, f"--tileir={text}")
    assert code == 2 and "error: " in errors


@pytest.mark.parametrize(
    "level, dialects",
    [
        (0, {"cuda_tile"}),
        (1, {"builtin", "arith", "scf", "nv_tileaa"}),
        (2, {"builtin", "llvm", "nvgpu", "nvvm", "vector"}),
        (3, {"builtin", "gpu", "llvm", "nvvm"}),
    ],
)
def test_levels_end_where_they_are_documented_to(capsys, source, level, dialects):
    code, text, errors = opt(
        capsys, source, f"--pass-pipeline=builtin.module(tileir{{opt-level={level} compute-capability=sm_90}})"
    )
    assert (code, errors) == (0, "")
    module = parse_module(text)
    module = module.regions[0].block.first if level == 0 and module.name == "builtin.module" else module
    assert {op.dialect for op in module.walk()} == dialects


@pytest.mark.parametrize("strategy, stages", [("none", 0), ("unspecialize", 3)])
def test_it_is_the_pipeline_of_the_stages(capsys, source, strategy, stages, tmp_path, monkeypatch):
    source = str(Path(source).absolute())
    monkeypatch.chdir(tmp_path)
    options = f"opt-level=3 compute-capability=sm_90 pipeline-strategy={strategy} dump-host=nowhere v2-opt-level=1"
    if stages:
        options += f" unspecialized-pipeline-num-stages={stages}"
    code, text, _ = opt(capsys, source, f"--tileir={options}")
    assert code == 0
    forced = {"unspecialized_pipeline_num_stages": stages} if stages else {}
    forced["v2_opt_level"] = 1
    result = api.compile(source, gpu_name="sm_90", opt_level=3, emit="llvm", pipeline_strategy=strategy, **forced)
    # The stage names an entry's module differently, and adds the known order of the kernel's sums.
    assert text == re.sub(r", tileiras\.order = \[.*?\]", "", result.kernels[0].artifacts[".llvm.mlir"].decode())


QUOTIENT = """\
cuda_tile.module @m {
  entry @k(%p: tile<ptr<f32>>) {
    %v, %t = load_ptr_tko weak %p : tile<ptr<f32>> -> tile<f32>, token
    %q = divf %v, %v rounding<nearest_even> : tile<f32>
    %u = store_ptr_tko weak %p, %q : tile<ptr<f32>>, tile<f32> -> token
    return
  }
}
"""

# Option -> a kernel, further options, and the value that makes another artifact of it.
CHANGES_THE_ARTIFACT = {
    "num-warps": (KERNEL, "", "2"),
    "num-ctas": (KERNEL, "", "2"),
    "compute-capability": (KERNEL, "", "sm_120"),
    "opt-level": (KERNEL, "", "1"),
    "pipeline-strategy": (KERNEL, "", "unspecialize"),
    "unspecialized-pipeline-num-stages": (KERNEL, "pipeline-strategy=unspecialize", "2"),
    "approx": (QUOTIENT, "", "true"),
    "ftz": (QUOTIENT, "", "true"),
    "use-nvgpucomp-libnvvm": (QUOTIENT, "", "true"),
    "v2-opt-level": (ATTENTION, "pipeline-strategy=unspecialize", "2"),
    "max-constraint-iterations": (ATTENTION, "pipeline-strategy=unspecialize v2-opt-level=2", "0"),
    "enable-random-delay": (ATTENTION, "pipeline-strategy=unspecialize", "true"),
    "index-bitwidth": (ATTENTION, "", "64"),
}

# Option -> further options and a value that changes messages or an additional file instead.
CHANGES_WHAT_IS_SAID = {
    "emit-line-info": ("", "tileas"),
    "rrt-size-threshold": ("pipeline-strategy=warp-specialize", "0"),
    "schedule-trace-file": ("", "trace.json"),
    "enable-debug-logging": ("", "true"),
    "dump-host": ("", "host.o"),
}

# Option -> further options, the file that they write, and a value that makes another one of it.
CHANGES_A_FILE = {"host-triple": ("dump-host=other.o", "other.o", "aarch64-linux")}

ANOTHER_VALUE = {"bool": "true", "int": "7", "unsigned": "7", "string": "something"}


def test_every_option_changes_something_or_says_why_it_does_not(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def made(kernel, text):
        Path("k.mlir").write_text(kernel)
        words = ["--remarks"] if "rrt-size-threshold" in text or "warp-specialize" in text else []
        code, *result = opt(capsys, "k.mlir", f"--tileir=opt-level=3 compute-capability=sm_90 {text}", *words)
        assert code == 0, result
        return result

    plain = {kernel: made(kernel, "") for kernel in (KERNEL, QUOTIENT, ATTENTION)}
    for name, option in OPTIONS.items():
        if name in CHANGES_THE_ARTIFACT:
            kernel, result, value = CHANGES_THE_ARTIFACT[name]
            assert made(kernel, f"{result} {name}={value}")[0] != made(kernel, result)[0], name
        elif name in CHANGES_WHAT_IS_SAID:
            result, value = CHANGES_WHAT_IS_SAID[name]
            artifact, entry = made(KERNEL, result)
            changed, otherwise = made(KERNEL, f"{result} {name}={value}")
            assert changed == artifact and (otherwise != entry or Path(value).exists()), name
        elif name in CHANGES_A_FILE:
            result, path, value = CHANGES_A_FILE[name]
            made(KERNEL, result)
            before = Path(path).read_bytes()
            made(KERNEL, f"{result} {name}={value}")
            assert Path(path).read_bytes() != before, name
        else:
            assert option.ours.startswith("nothing: "), name
            artifact, entry = made(KERNEL, f"{name}={ANOTHER_VALUE[option.kind]}")
            reason = option.ours.removeprefix("nothing: ")
            assert artifact == plain[KERNEL][0], name
            assert entry == f"warning: option '{name}' of 'tileir' has no effect here: {reason}\n", name
            assert made(KERNEL, f"{name}={str(option.default).lower()}") == plain[KERNEL], name


class Placeless(PassInstrumentation):
    """The operations whose origin is in no location, by the pass that made them."""

    def __init__(self):
        self.found = []

    def after_pass(self, name, op):
        for inner in op.walk():
            position = inner.location.resolve()
            if position is None or not position.line:
                self.found.append((name, inner.name))


EXAMPLES = Path(__file__).parents[2] / "examples"
PLACED = [*EXAMPLES.glob("*.mlir"), *EXAMPLES.glob("kernels/*.mlir"),
          *Path(__file__).parents[1].glob("lowering/cuda_tile_to_tileaa/*.mlir")]  # fmt: skip


def test_every_operation_of_every_level_has_a_place():
    watcher = Placeless()
    for path in sorted(PLACED):
        for part in path.read_text().split("// -----"):
            result = {"opt-level": 3, "compute-capability": "sm_90", "pipeline-strategy": "unspecialize"}
            passes = build(TileIRPipelineOptions(result))
            try:
                module = tileiras_opt.anchored(parse_module(part, path.name), passes)
                PassManager(passes, verify_each=False, instrumentation=[watcher]).run(module)
            except CompileError:  # options that a test expects to be refused, or features that the target lacks
                continue
    assert watcher.found == []


def test_warp_specialization_is_chosen_as_documented(capsys, source):
    for threshold, variant in ((0, "light"), (4096, "heavy")):
        result = f"pipeline-strategy=warp-specialize rrt-size-threshold={threshold}"
        quiet = opt(capsys, source, f"--tileir=compute-capability=sm_90 {result}")
        _, text, errors = opt(capsys, source, f"--tileir=compute-capability=sm_90 {result}", "--remarks")
        assert quiet == (0, text, ""), "remarks are printed on request"
        assert re.search(rf"k\.mlir:2:3: remark: .*\[agents\.loads-specialized variant={variant} loops=1\]", errors)
        assert "setmaxnreg" in text or "mbarrier.init" in text
        _, text, errors = opt(capsys, source, f"--tileir=compute-capability=sm_80 {result}", "--remarks")
        assert re.search(rf"k\.mlir:2:3: remark: .*\[agents\.loads-stay variant={variant}; ", errors)
    plain = opt(capsys, source, "--tileir=compute-capability=sm_80 pipeline-strategy=unspecialize")
    assert plain == (0, text, "")


def test_documented_rows_name_passes_that_exist_or_a_reason():
    for row in ROWS:
        assert row.ours or row.remark, row
        for name in row.ours:
            if name not in ("verifier", "snapshot printer"):
                assert lookup_pass(name).name == name
    levels = [row.level for row in ROWS]
    assert levels == sorted(levels)
    assert describe(1).count("\n") == 2 + sum(level <= 1 for level in levels)


def test_our_passes_of_the_rows_are_those_of_the_pipeline():
    named = {name for row in ROWS for name in row.ours} - {"verifier", "snapshot printer"}
    text = "tileir{opt-level=3 pipeline-strategy=unspecialize enable-random-delay}"
    run = {item.name for item in build(TileIRPipelineOptions.parse(text))}
    assert run == named


def test_snapshots_for_line_information_have_locations(capsys, source):
    for stage, banner, op in (
        ("frontend", "// *** IR Dump After convert-cudatile-to-tileaa ***", "nv_tileaa.tiled_load"),
        ("tileas", "// *** IR Dump Before convert-tileas-to-nvgpu ***", "nv_tileas."),
    ):
        _, _, errors = opt(capsys, source, f"--tileir=compute-capability=sm_90 emit-line-info={stage}")
        assert errors.count("IR Dump") == 1
        assert banner in errors and op in errors and 'k.mlir":14:' in errors


def test_the_trace_has_an_event_for_every_pass_and_remark(capsys, source, tmp_path):
    file = tmp_path / "trace.json"
    options = f"compute-capability=sm_90 pipeline-strategy=warp-specialize schedule-trace-file={file}"
    opt(capsys, source, f"--tileir={options}")
    events = json.loads(file.read_text())["traceEvents"]
    passes = [event["name"] for event in events if event["ph"] == "X"]
    assert passes[0] == "convert-cudatile-to-tileaa" and "tileas-unspecialized-pipeline" in passes
    remarked = [event["args"]["line"] for event in events if event["ph"] == "i"]
    loop = 1 + KERNEL.splitlines().index(next(line for line in KERNEL.splitlines() if "for %i" in line))
    assert remarked == [2, loop]
    code, _, errors = opt(capsys, source, f"--tileir={options}/no/such/folder")
    assert code == 0 and "error" not in errors


def test_the_trace_has_the_placement_of_loops(capsys, tmp_path):
    """Each operation of the loop has a stage, and an order in a round that no other operation has."""
    source, file = tmp_path / "a.mlir", tmp_path / "trace.json"
    source.write_text(ATTENTION)
    options = "compute-capability=sm_80 pipeline-strategy=unspecialize v2-opt-level=2"
    code, _, errors = opt(capsys, str(source), f"--tileir={options} schedule-trace-file={file}")
    assert code == 0, errors
    events = json.loads(file.read_text())["traceEvents"]
    placed = [event for event in events if event.get("args", {}).get("round") == 0]
    dots = {event["args"]["stage"] for event in placed if event["name"] == "nv_tileas.dot"}
    assert dots == {0, 1} and {event["tid"] for event in placed} == {0, 1}
    assert all("latency" in event["args"] for event in placed)
    assert sorted(event["args"]["order"] for event in placed) == list(range(len(placed)))
    names = [event["args"]["name"] for event in events if event["ph"] == "M" and "name" in event["args"]]
    assert names[0].startswith("entry ") and "loop at " in names[1]


@pytest.mark.parametrize(
    ("options", "tracks"),
    [
        ("pipeline-strategy=unspecialize", ["stage 0: iteration i"]),
        ("pipeline-strategy=warp-specialize rrt-size-threshold=0", ["stage 0: iteration i", "agent that loads"]),
    ],
)
def test_the_trace_has_the_cycles_of_loops_kept_as_written(capsys, tmp_path, options, tracks):
    """By the static model of a round: each operation of a track begins after the previous one, the second round is as
    long as the first, and each product begins after the end of the previous one."""
    source, file = tmp_path / "a.mlir", tmp_path / "trace.json"
    source.write_text(ATTENTION)
    code, _, errors = opt(
        capsys, str(source), f"--tileir=compute-capability=sm_90 {options} schedule-trace-file={file}"
    )
    assert code == 0, errors
    events = [event for event in json.loads(file.read_text())["traceEvents"] if event["pid"] > 0]
    labels = [event["args"]["name"] for event in events if event["name"] == "thread_name"]
    assert [label.partition(" tiles: ")[2] for label in labels[: len(tracks)]] == tracks
    spans = [event for event in events if "round" in event.get("args", {}) and event["pid"] == events[0]["pid"]]
    loads = [event for event in spans if event["name"] == "nv_tileas.tiled_load"]
    assert loads and {event["tid"] for event in loads} == {len(tracks) - 1}
    assert {event["tid"] for event in spans if event not in loads} == {0}
    dots = [event for event in spans if event["name"] == "nv_tileas.dot"]
    assert len(dots) == 4 and all(event["dur"] > 0 for event in dots)
    for one, other in itertools.pairwise(sorted(dots, key=lambda event: event["ts"])):
        assert one["ts"] + one["dur"] <= other["ts"] + 0.2
    lengths = [dots[2 + place]["ts"] - dots[place]["ts"] for place in (0, 1)]
    assert lengths[0] == pytest.approx(lengths[1], abs=0.2) and lengths[0] >= sum(dot["dur"] for dot in dots[:2])


GEMM = Path(__file__).parents[2] / "examples" / "bytecode" / "matmul_f16.tileirbc"


@pytest.mark.parametrize("strategy", ["unspecialize", "warp-specialize"])
def test_the_trace_of_a_product_has_copies_stages_and_agents(tmp_path, strategy):
    """On a track, no event begins before the end of the previous one; a copy ends before its tile is used."""
    trace = tmp_path / "trace.json"
    words = f"tileir{{schedule-trace-file={trace} pipeline-strategy={strategy}}}"
    assert main([str(GEMM), "--gpu-name=sm_90", "--tensor-maps=host", f"--pass-pipeline={words}", "--emit=tileas",
                 "-o", str(tmp_path / "out")]) == 0  # fmt: skip
    events = [event for event in json.loads(trace.read_text())["traceEvents"] if event["pid"]]
    labels = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert ("agent that loads" in str(labels)) == (strategy == "warp-specialize")
    rings = [track for track, label in labels.items() if " of its ring" in label]
    assert len(rings) >= 4 and len(set(map(labels.get, rings))) == len(rings)
    for track in rings:
        spans = [(event["ts"], event["ts"] + event["dur"], event) for event in events
                 if event["tid"] == track and event["ph"] == "X"]  # fmt: skip
        ordered = sorted(spans, key=lambda span: span[:2])
        assert {event["name"] for *_, event in spans} == {"copy", "tile in use"}
        assert all(one[1] <= other[0] + 0.2 for one, other in itertools.pairwise(ordered))
        assert all(event["args"]["latency"] > 100 for *_, event in spans if event["name"] == "copy")
        uses = {event["args"]["iteration"]: begin for begin, _, event in spans if event["name"] == "tile in use"}
        assert all(end <= uses[event["args"]["iteration"]] + 0.2 for _, end, event in spans if event["name"] == "copy")


def test_every_entry_of_a_trace_is_a_process(tmp_path):
    text = GEMM.read_bytes()
    first = api.compile(text, gpu_name="sm_90", emit="cuda_tile").text
    body = re.search(r"(?s)  entry @matmul_f16\(.*\n  }\n", first)[0]
    path, trace = tmp_path / "two.mlir", tmp_path / "trace.json"
    path.write_text(first.replace(body, body + body.replace("@matmul_f16", "@other")))
    words = ["--gpu-name=sm_90", f"--pass-pipeline=tileir{{schedule-trace-file={trace}}}", "--emit=tileas"]
    assert main([str(path), *words, "-o", str(tmp_path / "out")]) == 0
    events = json.loads(trace.read_text())["traceEvents"]
    named = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert named == {1: "entry matmul_f16: cycles", 2: "entry other: cycles"}
    counts = [sum(event["pid"] == process for event in events) for process in (1, 2)]
    assert counts[0] == counts[1] > 20


# ---- passes that fail softly -----------------------------------------------------------------------------------------


class Names(PassInstrumentation):
    """Notes which passes run."""

    def __init__(self):
        self.seen = []

    def after_pass(self, name, op):
        self.seen.append(name)


class Reluctant(Pass):
    name = "reluctant"

    def run(self, op, context):
        self.signal_soft_failure(context, Remark(Reason("loops.not-pipelined"), op.location))
        self.signal_soft_failure(context, Remark(Reason("agents.not-split"), op.location))


class Dependent(Pass):
    name = "dependent"
    runs = 0

    def run(self, op, context):
        type(self).runs += 1


def test_a_soft_failure_is_a_remark_and_skips_dependents():
    module = parse_module("module {}")
    engine = DiagnosticEngine()
    context = PassContext(engine)
    reluctant = Reluctant()
    manager = PassManager([reluctant, Dependent().after("reluctant"), Dependent().after("cse"), Dependent()])
    Dependent.runs = 0
    manager.run(module, context)
    assert stated(engine.diagnostics) == ["loops.not-pipelined", "agents.not-split"]
    assert not engine.has_errors and reluctant.state == Pass.SOFT_FAILURE
    assert context.soft_failures == {"reluctant"} and Dependent.runs == 2
    PassManager([Dependent().after("reluctant")]).run(module, context)
    assert Dependent.runs == 3, "the bits of an earlier run are gone"


def test_a_loop_without_room_fails_softly():
    """Two stages of 128 KB do not fit in the shared memory of a CTA."""
    product = Matmul((128, 128, 128), "f64", steps=4)
    text = product.text([product.load_a], product.multiply.replace("%b", "%a"))
    module = tileiras_opt.anchored(parse_module(text, "k.mlir"), build(TileIRPipelineOptions()))
    engine = DiagnosticEngine()
    context = PassContext(engine)
    passes = build(TileIRPipelineOptions.parse("tileir{compute-capability=sm_90 pipeline-strategy=unspecialize}"))
    del passes[[item.name for item in passes].index("tileir-verify-ops-analysis") :]
    watcher = Names()
    PassManager(passes, instrumentation=[watcher]).run(module, context)
    assert context.soft_failures == {"tileas-generate-schedule"}
    assert stated(engine.diagnostics)[-3:] == [
        "loops.loads-without-room loads=1 all=1; loops.no-shared-memory",
        "loops.not-pipelined; loops.no-shared-memory",
        "memory.copied-at-use loads=1",
    ]
    assert engine.diagnostics[-2].text == "Failed to pipeline loop", "documented"
    end = watcher.seen.index("tileas-roll-mma-dot")
    assert watcher.seen[end - 1] == "tileas-smem-operands", "no clean-up in between"
    text = print_op(module)
    assert "!nv_tileas.buffer<1, " in text and "!nv_tileas.buffer<2, " not in text


def test_the_page_of_passes_lists_their_declarations():
    docs = Path(__file__).parents[2] / "docs"
    spec = importlib.util.spec_from_file_location("passes_tables", docs / "passes_tables.py")
    tables = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tables)
    text = (docs / "passes.md").read_text(encoding="utf-8")
    assert tables.page(text) == text, "run: python docs/passes_tables.py"
    for name in names():
        result = lookup_pass(name)
        assert result.needs and result.establishes and result.keeps, name
