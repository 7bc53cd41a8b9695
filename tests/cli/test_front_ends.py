"""Front ends' calls, replayed: our programs and the vendor's have to satisfy the reader of each front end."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from front_ends import FRONT_ENDS, FrontEnd

import tileiras
from tileiras.cli import tileiras as compiler
from tileiras.cli import tileirdisasm as disassembler
from tileiras.codegen import toolkit

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
GPU = "sm_90"
OURS = {"tileiras": compiler.main, "tileirdisasm": disassembler.main}
EM_CUDA = 190

PROBE = """cuda_tile.module @probe { entry @probe(%p: !cuda_tile.tile<ptr<f32>>) {
  %0 = make_token : token
  %1 = constant <i32: 0> : !cuda_tile.tile<i32>
  %2 = constant <i32: 4> : !cuda_tile.tile<i32>
  %3 = constant <i32: 1> : !cuda_tile.tile<i32>
  %t = make_tensor_view %p, shape = [128], strides = [1] : tensor_view<128xf32, strides=[1]>
  %v = make_partition_view %t : partition_view<tile=(16), tensor_view<128xf32, strides=[1]>>
  for %i in (%1 to %2, step %3) : tile<i32> {
    %a, %b = load_view_tko weak %v[%i] token = %0 :
      partition_view<tile=(16), tensor_view<128xf32, strides=[1]>>, tile<i32> -> tile<16xf32>, token
    continue
  }
  return
} }
"""
"""The construction of cutile-rs' probe: a view, a token, and a load in the region of a loop."""

class Answer(NamedTuple):
    code: int
    output: str
    error: str
    product: Path
    remarks: Path


def identity(answer: Answer) -> None:
    assert answer.code == 0 and answer.output.strip()


def release(answer: Answer) -> None:
    """cuTile.jl (remarks need 13.4) and XLA (13.3) search for a token of three numbers."""
    match = re.search(r"\bV(\d+)\.(\d+)\.(\d+)\b", answer.output)
    assert answer.code == 0 and match is not None
    assert (13, 4) <= tuple(int(number) for number in match.groups())[:2]


def versions(answer: Answer) -> None:
    """tensor-ir compares its version with each line."""
    assert answer.code == 0
    assert {"13.1", "13.2", "13.3", "13.4"} <= set(answer.output.split("\n"))


def success(answer: Answer) -> None:
    assert answer.code == 0 and answer.error == ""


def cubin(answer: Answer) -> None:
    success(answer)
    data = answer.product.read_bytes()
    assert data.startswith(b"\x7fELF") and int.from_bytes(data[18:20], "little") == EM_CUDA
    assert b".text." in data


def refusal(answer: Answer) -> None:
    """A front end prints the text of standard error, and takes no product."""
    assert answer.code not in (0, None) and "error: " in answer.error
    assert not answer.product.exists()


def remarks(answer: Answer) -> None:
    """cuTile.jl takes the file apart at lines that begin with `---`."""
    cubin(answer)
    result = answer.remarks.read_text()
    starts = [match.start() for match in re.finditer(r"(?m)^---(?:[ \t].*)?\r?$", result)]
    assert starts and starts[0] == 0
    for start, end in zip(starts, [*starts[1:], len(result)]):
        assert result[start:end].startswith("--- !") and result[start:end].endswith("...\n")


def text(answer: Answer) -> None:
    assert answer.code == 0 and "entry @vector_add" in answer.output


READERS: dict[str, Callable[[Answer], None]] = {
    function.__name__: function for function in (identity, release, versions, success, cubin, refusal, remarks, text)
}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("front_ends")

    def bytecode(name: str, source: str | Path, version: str = "13.3") -> str:
        artifact = tileiras.compile(source, gpu_name=GPU, emit="bytecode", bytecode_version=version)
        path = folder / f"{name}.bc"
        path.write_bytes(artifact.data)
        return str(path)

    paths = {
        "bytecode": bytecode("bytecode", EXAMPLES / "bytecode" / "vector_add.tileirbc"),
        "empty": bytecode("empty", "cuda_tile.module @m {\n}\n"),
        "probe": bytecode("probe", PROBE),
        "folder": str(folder),
    }
    data = bytearray(Path(paths["empty"]).read_bytes())
    data[9] = 9  # of 13.9
    damaged = {"unknown": bytes(data), "invalid": Path(paths["bytecode"]).read_bytes()[:-16]}
    for name, content in damaged.items():
        paths[name] = str(folder / f"{name}.bc")
        Path(paths[name]).write_bytes(content)
    return paths


@pytest.mark.parametrize("whose", ["ours", "vendor"])
@pytest.mark.parametrize("front_end", FRONT_ENDS, ids=lambda row: row.name)
def test_the_calls_of_a_front_end_are_answered(ptxas, front_end: FrontEnd, whose, inputs, tmp_path, monkeypatch, capfd):
    tools = {name: toolkit.find_program(name) for name in OURS}
    if whose == "vendor" and None in tools.values():
        pytest.skip("the vendor's tools are not installed")
    for name, value in front_end.environment.items():
        if whose == "ours":  # the vendor's tools need the toolkit there
            monkeypatch.setenv(name, value.format(**inputs))
    for number, call in enumerate(front_end.calls):
        places = {"cubin": str(tmp_path / f"{number}.cubin"), "remarks": str(tmp_path / f"{number}.yaml")}
        program, *words = shlex.split(call.line.format(**inputs, **places, gpu=GPU))
        if whose == "ours":
            code = int(OURS[program](words))
            output, error = capfd.readouterr()
        else:
            done = subprocess.run([tools[program], *words], capture_output=True, text=True, check=False)
            code, output, error = done.returncode, done.stdout, done.stderr
        outputs = [word for word in words if word.endswith(".cubin")]
        product = Path(outputs[0].partition("=")[2] or outputs[0] if outputs else tmp_path / "absent")
        READERS[call.expect](Answer(code, output, error, product, Path(places["remarks"])))
        if product.exists():
            os.unlink(product)
