"""Registers that ptxas leaves a thread where a kernel requests several CTAs on an SM."""

from __future__ import annotations

import pytest

from tileiras.codegen import ptxas
from tileiras.targets import registers_per_thread

VALUES = 250


def kernel(threads: int, ctas: int) -> str:
    """A kernel that holds more values than a thread has registers."""
    loads = "\n".join(f"ld.volatile.global.u32 %r{each}, [%rd1+{4 * each}];" for each in range(VALUES))
    stores = "\n".join(f"st.volatile.global.u32 [%rd1+{4 * each}], %r{each};" for each in range(VALUES))
    return f""".version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 p) .reqntid {threads} .minnctapersm {ctas} {{
.reg .b32 %r<{VALUES + 1}>; .reg .b64 %rd<2>;
ld.param.u64 %rd1, [p];
{loads}
bar.sync 0;
{stores}
ret; }}"""


@pytest.mark.usefixtures("ptxas")
@pytest.mark.parametrize("threads", [96, 128, 160, 224, 288, 384])
@pytest.mark.parametrize("ctas", [2, 3, 5])
def test_ptxas_keeps_to_the_registers_of_a_partition(threads, ctas):
    used = ptxas.assemble(kernel(threads, ctas), "sm_90").resources["k"]
    assert used.registers == registers_per_thread(threads, ctas)
