"""`sanitize=memcheck` in a build: artifacts depend on the places of accesses only with this option."""

import re

from project import Project

import tileiras

KERNEL = """\
cuda_tile.module @m {
  entry @k(%p: tile<ptr<f32>>, %i: tile<i32>) {
    %v = make_tensor_view %p, shape = [100], strides = [1] : tensor_view<100xf32, strides=[1]>
    %w = make_partition_view %v : partition_view<tile=(32), tensor_view<100xf32, strides=[1]>>
    %t, %r = load_view_tko weak %w[%i] : partition_view<tile=(32), tensor_view<100xf32, strides=[1]>>, tile<i32> -> tile<32xf32>, token
    %r2 = store_view_tko weak %t, %w[%i] : tile<32xf32>, partition_view<tile=(32), tensor_view<100xf32, strides=[1]>>, tile<i32> -> token
    return
  }
}
"""  # noqa: E501


def test_a_moved_access_is_recompiled_only_if_its_line_matters(tmp_path):
    project = Project(str(tmp_path))
    project.write("kernels/k.mlir", KERNEL)
    sanitized = ("sm=sm_90", "emit=ptx", "sanitize=memcheck")
    project.scons(*sanitized)
    (ptx,) = [data for name, data in project.artifacts().items() if name.endswith(".ptx")]
    result = tileiras.compile(
        KERNEL, gpu_name="sm_90", emit="ptx", sanitize="memcheck", source_name="kernels/k.mlir"
    )
    assert ptx == result.data
    project.write("kernels/k.mlir", "// moved\n" + KERNEL)
    assert "tileaa" in project.scons(*sanitized).stages
    (moved,) = [data for name, data in project.artifacts().items() if name.endswith(".ptx")]
    assert moved != ptx
    assert re.sub(rb"\{[\d, ]+\}", b"", moved) == re.sub(rb"\{[\d, ]+\}", b"", ptx)
