"""cuTile Python with our commands instead of the vendor's: it locates and tests them, compiles, reads errors, dumps the
Tile IR, keeps cubins with their remarks, ends a compilation that takes too long, and tunes."""

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
try:
    with ct.compiler_timeout(0.001):
        C.export_kernel(twice, [signature(ct.int32, ct.int32)], "late", gpu_code="sm_80", output_format="cubin")
except Exception as error:
    print(type(error).__name__)
"""

TUNING = """\
import numpy as np
from driver import Driver

images = []
driver = Driver((9, 0), lambda image, name, grid, parameters: images.append((image[:4], name, grid)))
driver.install()


class OnDevice:
    def __init__(self, array):
        self.__cuda_array_interface__ = {**array.__array_interface__, "version": 3}


@ct.kernel
def scaled(x, y, T: ct.Constant[int]):
    ct.store(y, (ct.bid(0),), ct.load(x, (ct.bid(0),), (T,)) * 2)


x, y = np.zeros(4096, np.float32), np.zeros(4096, np.float32)
result = ct.tune.exhaustive_search(
    [128, 256], 0, lambda T: (4096 // T,), scaled, lambda T: (OnDevice(x), OnDevice(y), T), flush_l2=False, quiet=True
)
print(len(result.successes), len(result.failures))
ct.launch(0, (32,), scaled, (OnDevice(x), OnDevice(y), 128))
print(images)
"""


def commands(folder: Path) -> Path:
    """A folder with our two programs."""
    path = folder / "bin"
    path.mkdir()
    for name in ("tileiras", "tileirdisasm"):
        command = " ".join(shlex.quote(word) for word in both_ways.command(name))
        (path / name).write_text(f'#!/bin/sh\nPYTHONPATH="{CHECKOUT}" exec {command} "$@"\n')
        (path / name).chmod(0o755)
    return path


@pytest.fixture(scope="module", params=["off", "auto"] if sys.platform == "linux" else ["off"])
def folder(request, tmp_path_factory) -> Path:
    """The folder in which the script has run with our commands first on PATH; its output is in `said`."""
    if toolkit.find_program("ptxas") is None:
        pytest.skip("no ptxas")
    folder = tmp_path_factory.mktemp("front_end")
    (folder / "kernels.py").write_text(KERNELS + SCRIPT)
    environment = {**os.environ, "PATH": f"{commands(folder)}{os.pathsep}{os.environ['PATH']}",
                   "CUDA_TILE_CACHE_DIR": str(folder / "cache"), "CUDA_TILE_TEMP_DIR": str(folder),
                   "CUDA_TILE_DUMP_TILEIR": str(folder / "dumps"), "TILEIRAS_SERVER": request.param}  # fmt: skip
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
    _, kind, place, code, *message = (folder / "said").read_text().splitlines()[:-1]
    assert kind.endswith("CompilerExecutionError")
    line = 1 + KERNELS.split("\n").index("    ct.store(y, (ct.bid(0),), tile // 2)")
    assert place == f"{folder / 'kernels.py'}:{line}"
    assert code == "Return code 3"
    assert "rounding mode 'negative_inf' is not allowed with 'unsigned' flag" in message[0]
    assert "tile // 2" in message[1]
    assert message[-1] == "input does not correspond to Tile IR bytecode"


def test_the_front_end_ends_a_compilation_that_takes_too_long(folder):
    assert (folder / "said").read_text().splitlines()[-1].endswith("TimeoutError")
    assert not (folder / "late").exists()


def test_the_dumps_of_the_front_end_are_tile_ir(folder):
    dumps = [path.read_text() for path in (folder / "dumps").glob("twice*.tileir")]
    assert dumps and all(text.startswith("entry @k(") and "load_view_tko" in text for text in dumps)


def test_the_front_end_keeps_cubins_with_our_remarks(folder):
    environment = {**os.environ, "CUDA_TILE_CACHE_DIR": str(folder / "cache")}
    command = [sys.executable, "-c", "from cutile_cache._cli import main; main()", "log"]
    log = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    assert log.count("Compiler:   tileiras 13.5") == 2  # one for each GPU; failures are not kept
    assert "Name:            RemarkMemoryStoreInstructionSelected" in log


def test_tuner_of_the_front_end_compiles_candidates_with_ours(tmp_path):
    if toolkit.find_program("ptxas") is None:
        pytest.skip("no ptxas")
    (tmp_path / "kernels.py").write_text(KERNELS + TUNING)
    driver = CHECKOUT / "tests" / "conformance" / "front_end"
    environment = {**os.environ, "PATH": f"{commands(tmp_path)}{os.pathsep}{os.environ['PATH']}",
                   "CUDA_TILE_CACHE_DIR": "off", "PYTHONPATH": str(driver), "TILEIRAS_SERVER": "off"}  # fmt: skip
    done = subprocess.run(
        [sys.executable, "kernels.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    counts, launches = done.stdout.splitlines()
    assert counts == "2 0"
    assert launches.startswith("[(b'\\x7fELF', 'scaled")
