"""Reports of kernels, built once for all tests that read them."""

from __future__ import annotations

import pytest
from reports import EXAMPLES, options


@pytest.fixture(scope="session")
def matmul():
    from tileiras.report import collect

    return collect.of_source(str(EXAMPLES / "matmul_f16.py"), options())


@pytest.fixture(scope="session")
def saxpy():
    """A report with an estimate of its launch."""
    import numpy as np

    from tileiras.report import collect
    from tileiras.report.timing import Launch

    args = [np.ones(3000, np.float32), np.ones(3000, np.float32), np.float32(2), 3000]
    return collect.of_source(str(EXAMPLES / "saxpy.mlir"), options(), launch=Launch(None, (3,), args, "H200"))
