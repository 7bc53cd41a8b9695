"""llvmlite imported by a helper process: without modules that only other programs use, and with the same behavior."""

import subprocess
import sys

import pytest

COMPILE = """
from tileiras.codegen import llvm_pipeline, llvmlite_import
llvmlite_import.load()
text, _ = llvm_pipeline.REQUESTS["compile"](
    ir=llvm_pipeline._WARM_UP, chip="sm_90", features="+ptx78", opt_level=3, libraries=(), bitcode=()
)
"""


def said(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_a_kernel_is_compiled_without_modules_of_others():
    code = COMPILE + """
import sys
print(".entry k" in text, *[name for name in ("zipfile", "urllib", "llvmlite.ir.values") if name in sys.modules])
"""
    assert said(code) == "True\n"


def test_skipped_parts_are_loaded_at_their_use():
    code = COMPILE + """
import importlib.resources, llvmlite.binding
module = llvmlite.binding.parse_assembly("define i32 @f(i32 %x) { ret i32 %x }")
print(module.get_function("f").global_value_type.as_ir(__import__("llvmlite.ir").ir.global_context))
print((importlib.resources.files("llvmlite") / "__init__.py").is_file())
"""
    assert said(code) == "i32 (i32)\nTrue\n"


@pytest.mark.parametrize("change", [
    "llvmlite_import._Place = str",  # a release that calls other methods of a path
    "llvmlite_import._Resources.files = None",
    "del llvmlite_import._Builder.__getattr__",
])  # fmt: skip
def test_another_llvmlite_is_imported_as_ever(change):
    code = COMPILE.replace("llvmlite_import.load()", f"{change}\nllvmlite_import.load()")
    assert said(code + 'print(".entry k" in text)') == "True\n"
