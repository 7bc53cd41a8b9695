"""CPython 3.14 of Pyodide, in Node: every file is valid, and kernels have the LLVM IR that this Python gives them.

Pyodide has the standard library; llvmlite, with PTX, and NumPy, with the simulators, are not there.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from pathlib import Path

import pytest
from project import CHECKOUT

import tileiras

KERNELS = ("saxpy.mlir", "matmul_f32.mlir", "bytecode/matmul_f16.tileirbc", "bytecode/softmax.tileirbc")
GPUS = ("sm_80", "sm_90", "sm_100")

PROGRAM = """\
import hashlib, json, os, sys, warnings
sys.path.insert(0, "/src")
os.environ["TILEIRAS_CACHE_DIR"] = "off"
warnings.simplefilter("error", SyntaxWarning)
files = 0
for top in ("tileiras", "tests", "bench", "docs", "site_scons"):
    for folder, _, names in os.walk("/src/" + top):
        for name in names:
            if name.endswith(".py"):
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    compile(file.read(), name, "exec")
                files += 1
warnings.simplefilter("error", DeprecationWarning)
from tileiras import api
def digest(data):
    return hashlib.sha256(data).hexdigest()
digests = {
    f"{gpu} {kernel}": digest(api.compile("/src/examples/" + kernel, gpu_name=gpu, emit="llvm").data)
    for gpu in GPUS for kernel in KERNELS
}
print(json.dumps({"version": sys.version_info[:2], "files": files, "digests": digests}))
"""


@pytest.fixture(scope="module")
def pyodide(tmp_path_factory) -> Path:
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("needs Node and npm")
    folder = tmp_path_factory.mktemp("pyodide")
    done = subprocess.run(["npm", "pack", "--silent", "pyodide@314"], cwd=folder, capture_output=True, check=False)
    if done.returncode:
        pytest.skip("npm cannot fetch Pyodide")
    subprocess.run(["tar", "xzf", *map(str, folder.glob("*.tgz"))], cwd=folder, check=True)
    return folder / "package"


@pytest.mark.slow
def test_kernels_have_the_same_code(pyodide, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(f"GPUS, KERNELS = {GPUS!r}, {KERNELS!r}\n{PROGRAM}")
    script = Path(__file__).with_name("on_pyodide.mjs")
    command = ["node", str(script), str(pyodide), CHECKOUT, str(program)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    answer = json.loads(done.stdout.splitlines()[-1])
    assert answer["version"] == [3, 14] and answer["files"] > 1500
    for name, digest in answer["digests"].items():
        gpu, kernel = name.split()
        own = tileiras.compile(Path(CHECKOUT) / "examples" / kernel, gpu_name=gpu, emit="llvm").data
        assert hashlib.sha256(own).hexdigest() == digest, name
