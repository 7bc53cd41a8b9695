"""The examples of docs/library.md run as they stand, one after the other."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_the_examples_run(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    examples = re.findall(r"```python\n(.*?)```", Path("docs/library.md").read_text(), re.DOTALL)
    assert len(examples) == 10
    names: dict[str, object] = {}
    for example in examples:
        exec(compile(example, "docs/library.md", "exec"), names)
    printed = capsys.readouterr().out
    assert "used by ['cuda_tile.store_ptr_tko']" in printed
    assert "#cuda_tile.di_subprogram<" in printed
    assert "define" in printed
    assert "3 <input>:1:46: error: " in printed
    assert "addf" in names["print_op"](names["module"])  # the built operation
    assert "instructions, 0 lines with bank conflicts" in printed


def test_fields_of_results_are_all_on_the_page():
    import json

    from tileiras import api
    from tileiras.sim.emulator import EmulationResult

    page = (ROOT / "docs/library.md").read_text()
    result = api.compile(ROOT / "examples/saxpy.mlir", gpu_name="sm_90", emit="cubin")
    (kernel,) = result.kernels
    resources = json.loads(kernel.artifacts[".resources.json"])["kernels"]["saxpy"]
    carried = [
        *api.Artifact.__slots__, *api.Kernel.__slots__, *EmulationResult.__slots__, *kernel.artifacts,
        *kernel.metadata, *kernel.metadata["parameters"][0], *resources, *resources["occupancy"],
    ]  # fmt: skip
    assert [name for name in carried if not name.startswith("_") and f"`{name}`" not in page] == []
