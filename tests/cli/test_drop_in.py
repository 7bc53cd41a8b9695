"""cuTile Python with our command instead of the vendor's: it locates it, tests it, compiles, and reads errors."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import both_ways
import pytest

from tileiras.codegen import toolkit

pytest.importorskip("cuda.tile", reason="needs cuTile Python")

CHECKOUT = Path(__file__).resolve().parents[2]

KERNELS = """\
import sys
import cuda.tile as ct
from cuda.tile import compilation as C, _compile

_compile._find_pip_tileiras = lambda: None      # as where the vendor's package is not installed


@ct.kernel
def twice(x, y):
    ct.store(y, (ct.bid(0),), ct.load(x, (ct.bid(0),), (64,)) * 2)


@ct.kernel
def halve(x, y):
    tile = ct.load(x, (ct.bid(0),), (64,))
    ct.store(y, (ct.bid(0),), tile // 2)


def array(dtype):
    return C.ArrayConstraint(dtype, 1, index_dtype=ct.int32, stride_lower_bound_incl=0, alias_groups=(), may_alias_internally=False)


def signature(*dtypes):
    return C.KernelSignature([array(dtype) for dtype in dtypes], C.CallingConvention.cutile_python_v1(), symbol="k")


"""  # noqa: E501

SCRIPT = """\
print(_compile._get_max_supported_bytecode_version(None).as_string())
for gpu in ("sm_80", "sm_120"):
    C.export_kernel(twice, [signature(ct.float32, ct.float32)], gpu, gpu_code=gpu, output_format="cubin")
try:
    C.export_kernel(halve, [signature(ct.uint32, ct.uint32)], "halved", gpu_code="sm_80", output_format="cubin")
except Exception as error:
    print(type(error).__name__)
    print(error.loc.filename, error.loc.line, sep=":")
    print(error.message)
"""


@pytest.fixture(scope="module", params=["off", "auto"] if sys.platform == "linux" else ["off"])
def folder(request, tmp_path_factory) -> Path:
    """The folder in which the script has run with our command first on PATH; its output is in `said`."""
    if toolkit.find_program("ptxas") is None:
        pytest.skip("no ptxas")
    folder = tmp_path_factory.mktemp("front_end")
    commands = folder / "bin"
    commands.mkdir()
    program = commands / "tileiras"
    command = " ".join(shlex.quote(word) for word in both_ways.command("tileiras"))
    program.write_text(f'#!/bin/sh\nPYTHONPATH="{CHECKOUT}" exec {command} "$@"\n')
    program.chmod(0o755)
    (folder / "kernels.py").write_text(KERNELS + SCRIPT)
    environment = {**os.environ, "PATH": f"{commands}{os.pathsep}{os.environ['PATH']}",
                   "CUDA_TILE_CACHE_DIR": "off", "CUDA_TILE_TEMP_DIR": str(folder),
                   "TILEIRAS_SERVER": request.param}  # fmt: skip
    before = 0
    if request.param == "auto":
        service = request.getfixturevalue("service_of_commands")
        environment["XDG_RUNTIME_DIR"] = str(service.runtime)
        before = service.facts()["requests"]
    done = subprocess.run(
        [sys.executable, "kernels.py"], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    if request.param == "auto":
        # Its versions, the bytecode that each of them reads, and the kernels.
        assert service.facts()["requests"] >= before + 4
    (folder / "said").write_text(done.stdout)
    return folder


def test_the_front_end_finds_the_newest_version_and_exports(folder):
    assert (folder / "said").read_text().startswith("13.4\n")
    for gpu in ("sm_80", "sm_120"):
        assert (folder / gpu).read_bytes().startswith(b"\x7fELF")


def test_the_front_end_finds_the_line_of_an_error(folder):
    # The front end rounds the quotient of unsigned numbers in a way that the language has only for signed ones.
    _, kind, place, code, *message = (folder / "said").read_text().splitlines()
    assert kind.endswith("CompilerExecutionError")
    line = 1 + KERNELS.split("\n").index("    ct.store(y, (ct.bid(0),), tile // 2)")
    assert place == f"{folder / 'kernels.py'}:{line}"
    assert code == "Return code 3"
    assert "rounding mode 'negative_inf' is not allowed with 'unsigned' flag" in message[0]
    assert "tile // 2" in message[1]
    assert message[-1] == "input does not correspond to Tile IR bytecode"
