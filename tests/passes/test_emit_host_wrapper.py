"""The host's part of launches, as the textual pipeline writes it."""

import pytest

from tileiras.codegen.host_code import HostKernel, host_object
from tileiras.diagnostics import CompileError, DiagnosticEngine
from tileiras.ir import parse_module
from tileiras.ir.pass_manager import PassContext, PassManager
from tileiras.passes.tileir_emit_host_wrapper import EmitHostWrapper

KERNEL = """
module {
  nv_tileaa.func @k(%p: !nv_tileaa.ptr<f32, 1>, %small: i8, %wide: i64) attributes {
      kernel_spec = #nv_tileaa.kernel_spec<numWarps = 1>, target_spec = "sm_90"} {
    nv_tileaa.return
  }
}
"""


def run(**options):
    engine = DiagnosticEngine()
    PassManager([EmitHostWrapper(**options)]).run(parse_module(KERNEL, "k.mlir"), PassContext(engine))
    return engine.diagnostics


@pytest.mark.parametrize("triple, platform", [
    ("x86_64-unknown-linux-gnu", ("x86_64", "linux")), ("aarch64-linux", ("aarch64", "linux")),
    ("x86_64-pc-windows-msvc", ("x86_64", "windows")),
])  # fmt: skip
def test_the_object_is_that_of_the_host(tmp_path, triple, platform):
    assert not run(dump_host=str(tmp_path / "host.o"), host_triple=triple)
    assert (tmp_path / "host.o").read_bytes() == host_object([HostKernel("k")], *platform)


def test_arguments_are_reported_at_their_places():
    places = [item.message.partition(": ")[2] for item in run(enable_debug_logging=True)]
    assert places == ["offset = 0, size = 8", "offset = 8, size = 1", "offset = 16, size = 8"]


@pytest.mark.parametrize("options, code", [
    ({"host_triple": "mips-unknown-linux"}, 2), ({"host_triple": "x86_64"}, 2),
    ({"dump_host": "no/such/folder/host.o", "host_triple": "x86_64-linux"}, 1),
])  # fmt: skip
def test_unknown_hosts_and_missing_files(options, code):
    with pytest.raises(CompileError) as error:
        run(**options)
    assert error.value.code == code
