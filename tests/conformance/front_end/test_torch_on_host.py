"""Results of torch's functions after `install`, in a process of their own because `install` cannot be undone."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

PROGRAM = """
import torch, torch_on_host
torch_on_host.install((9, 0))
x = 100 * torch.rand(512, device="cuda", generator=torch.Generator().manual_seed(1))
assert torch.equal(torch.sqrt(x), torch.sqrt(x.to(torch.float64)).to(torch.float32))
assert torch.sqrt(torch.arange(4)).dtype == torch.float32
turn = torch.exp(torch.tensor([0.5j]))
assert turn.is_complex() and abs(turn.imag.item() - 0.479425539) < 1e-6
halves = torch.fft.fft(torch.ones(4).to(torch.complex32))
assert halves.dtype == torch.complex32 and halves[0].real == 4
"""


def test_functions_are_rounded_once_and_complex_numbers_stay():
    folder = Path(__file__).parent
    done = subprocess.run([sys.executable, "-c", PROGRAM], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
