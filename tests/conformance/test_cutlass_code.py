"""Host code that nvcc compiles prepares a launch, which is recorded and emulated."""

from __future__ import annotations

import shutil
import struct

import cutlass_code
import pytest
from cutlass_code import Case, attempt_example, encoded, read_launch, with_maps

from tileiras.sim.emulator import tensor_map

# C of m x n = A^T B, A and B m-major and n-major; sizes and strides are fields of a structure, as in CuTe.
PRODUCT = """
#include <cuda.h>
#include <cuda_runtime.h>
#include <cstdlib>
#include <vector>
struct Shape { int m, n, k; };
__global__ static void fill(float* c) { c[threadIdx.x] = 7; }
template <class T> __global__ static void gemm_device(Shape s, const T* a, const T* b, T* c, T alpha) {
  extern __shared__ T rows[];
  for (int at = threadIdx.x; at < s.k * s.m; at += blockDim.x) rows[at] = a[at];
  SYNC
  int n = blockIdx.x, m = blockDim.x - 1 - threadIdx.x;
  T sum = 0;
  for (int k = 0; k < s.k; ++k) sum += rows[k * s.m + m] * b[k * s.n + n];
  c[n * s.m + m] = alpha * sum;
}
int main(int, char** arguments) {
  Shape s{atoi(arguments[1]), atoi(arguments[2]), atoi(arguments[3])};
  std::vector<float> a(s.m * s.k), b(s.n * s.k);
  for (size_t n = 0; n < a.size(); ++n) a[n] = int(n % 5) - 2;
  for (size_t n = 0; n < b.size(); ++n) b[n] = int(n % 3) - 1;
  float *da, *db, *dc;
  cudaMalloc(&da, 4 * a.size()), cudaMalloc(&db, 4 * b.size()), cudaMalloc(&dc, 4 * s.m * s.n);
  cudaMemcpy(da, a.data(), 4 * a.size(), cudaMemcpyHostToDevice);
  cudaMemcpy(db, b.data(), 4 * b.size(), cudaMemcpyHostToDevice);
  fill<<<1, 1>>>(dc);
  gemm_device<float><<<s.n, s.m, 4 * a.size()>>>(s, da, db, dc, ALPHA);
  return 1;
}
"""


@pytest.mark.sampled(2)
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc")
@pytest.mark.parametrize(
    ("sync", "alpha", "said"),
    [
        ("__syncthreads();", "1", r""),
        ("__syncthreads();", "2", r"elements differ"),
        ("", "1", r"EmulationError: .*(read before it is written|race on shared)"),
    ],
)
def test_launches_of_the_host_code_are_emulated(tmp_path, sync, alpha, said):
    folder = tmp_path / "checkout" / cutlass_code.TUTORIAL
    folder.mkdir(parents=True)
    (folder / "own.cu").write_text(PRODUCT.replace("SYNC", sync).replace("ALPHA", alpha))
    case = Case("own.cu", "80", (64, 3, 7), "ABC", "f4", "f4", transposed=False)
    (row,) = attempt_example(tmp_path / "checkout", tmp_path / "build", 1, [case])
    assert row.known is None and bool(row.said) == bool(said)
    assert not said or cutlass_code.re.search(said, row.said), row.said


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc")
def test_refusals_of_nvcc_are_rows(tmp_path):
    folder = tmp_path / cutlass_code.TUTORIAL
    folder.mkdir(parents=True)
    (folder / "own.cu").write_text("int main() { return undeclared; }\n")
    case = Case("own.cu", "80", (64, 3, 7), "ABC", "f4", "f4")
    (row,) = attempt_example(tmp_path, tmp_path / "build", 1, [case])
    assert "CannotPrepare" in row.said and "undeclared" in row.said


def test_tensor_maps_in_parameters():
    """f16, 64x32 of a tensor of 256x128 with rows of 512 bytes, swizzled by 128 bytes."""
    address = 1 << 44
    marked = cutlass_code.MARK + struct.pack("<i", 0) + bytes(tensor_map.BYTES - 20)
    text = f"""memory {address} {bytes(16).hex()}
map 0 6 0 3 0 {address} 2 256 128 512 64 32 1 1
entry k
grid 2 1 1
block 128 1 1
cluster 2 1 1
shared 1024
parameter {(b"abcdefgh" * 8 + marked + b"tail").hex()}
"""
    launch = read_launch(text)
    assert (launch.grid, launch.cluster, launch.shared) == ((2, 1, 1), (2, 1, 1), 1024)
    raw = launch.parameters[0]
    assert raw[:64] == b"abcdefgh" * 8 and raw[-4:] == b"tail"
    result = tensor_map.decode(raw[64:-4])
    assert result == tensor_map.TensorMap("f16", address, (256, 128), (512,), (64, 32), 128)
    assert with_maps(bytes(200), {}) == bytes(200)


@pytest.mark.parametrize("fields", [(13, 0, 3, 0), (6, 1, 3, 0)])
def test_maps_that_the_emulator_lacks(fields):
    with pytest.raises(cutlass_code.CannotPrepare, match="of a kind"):
        encoded(*fields, 1 << 44, 2, 256, 128, 512, 64, 32, 1, 1)
