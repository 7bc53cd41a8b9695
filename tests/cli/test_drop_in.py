"""cuTile Python with our command in the place of the vendor's: it finds it, tries it, compiles, and reads errors."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

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

GOOD = """\
C.export_kernel(twice, [signature(ct.float32, ct.float32)], "k.cubin", gpu_code=sys.argv[1], output_format="cubin")
print(_compile._get_max_supported_bytecode_version(None).as_string())
"""

BAD = """\
try:
    C.export_kernel(halve, [signature(ct.uint32, ct.uint32)], "k.cubin", gpu_code="sm_80", output_format="cubin")
except Exception as error:
    print(type(error).__name__)
    print(error.loc.filename, error.loc.line, sep=":")
    print(error.message)
"""


@pytest.fixture
def run(tmp_path):
    """Runs a script where our command is first on PATH; gives what it prints."""
    commands = tmp_path / "bin"
    commands.mkdir()
    program = commands / "tileiras"
    program.write_text(f'#!/bin/sh\nPYTHONPATH="{CHECKOUT}" exec "{sys.executable}" -m tileiras.cli.tileiras "$@"\n')
    program.chmod(0o755)

    def run(text: str, *arguments: str) -> str:
        (tmp_path / "kernels.py").write_text(KERNELS + text)
        environment = {**os.environ, "PATH": f"{commands}{os.pathsep}{os.environ['PATH']}",
                       "CUDA_TILE_CACHE_DIR": "off", "CUDA_TILE_TEMP_DIR": str(tmp_path)}  # fmt: skip
        done = subprocess.run(
            [sys.executable, "kernels.py", *arguments], cwd=tmp_path, env=environment, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.mark.parametrize("gpu", ["sm_80", "sm_120"])
def test_the_front_end_exports_cubins(ptxas, run, tmp_path, gpu):
    assert run(GOOD, gpu) == "13.4\n"
    assert (tmp_path / "k.cubin").read_bytes().startswith(b"\x7fELF")


def test_the_front_end_finds_the_line_of_an_error(run, tmp_path):
    # The front end rounds the quotient of unsigned numbers in a way that the language has for signed ones only.
    kind, place, code, *message = run(BAD).splitlines()
    assert kind.endswith("CompilerExecutionError")
    line = 1 + KERNELS.split("\n").index("    ct.store(y, (ct.bid(0),), tile // 2)")
    assert place == f"{tmp_path / 'kernels.py'}:{line}"
    assert code == "Return code 3"
    assert "rounding mode 'negative_inf' is not allowed with 'unsigned' flag" in message[0]
    assert "tile // 2" in message[1]
    assert message[-1] == "input does not correspond to Tile IR bytecode"
