"""The kernel that tests of options compile, and the command that compiles it."""

from invocations import KERNEL

from tileiras.cli import tileiras

F32 = KERNEL.replace("TYPE", "f32")


def compile(kernel: str, *options: str, emit: str = "ptx") -> int:
    """Compile a file for sm_90 to `out` with `tileiras` or with its stand-in (`conftest.way`)."""
    return tileiras.main([kernel, "--gpu-name=sm_90", f"--emit={emit}", "-o", "out", *options])
