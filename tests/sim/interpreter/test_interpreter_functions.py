"""The interpreter's f64 functions against mpmath at 400 bits, to the bit."""

from fractions import Fraction

import numpy as np
import pytest

from tileiras.api import parse
from tileiras.diagnostics import CompileError
from tileiras.sim import interpret
from tileiras.sim.interpreter.functions import PLAIN, evaluate
from tileiras.sim.interpreter.rounding import round_fraction

N = 80


def either_sign(generator, low, high):
    return np.exp2(generator.uniform(low, high, N)) * generator.choice([-1, 1], N)


def operands(name: str) -> list[np.ndarray]:
    """Finite operands with finite results, where the functions' parts meet and where they are hard."""
    g = np.random.default_rng(len(name) + ord(name[0]))
    if name in ("exp", "sinh", "cosh"):
        return [np.concatenate([g.uniform(-744, 709, N), g.uniform(-45, 45, N), either_sign(g, -70, 3)])]
    if name == "exp2":
        return [np.concatenate([g.uniform(-1074, 1023, N), np.arange(-9.0, 9), either_sign(g, -70, 3)])]
    if name == "tanh":
        return [np.concatenate([g.uniform(-22, 22, N), either_sign(g, -70, 3)])]
    if name in ("log", "log2", "rsqrt"):
        near_one = 1 + either_sign(g, -52, -1)
        return [np.concatenate([np.abs(either_sign(g, -1074, 1023)), near_one, np.exp2(np.arange(-9.0, 9))])]
    if name in ("sin", "cos", "tan"):
        multiples = np.rint(g.uniform(-1e6, 1e6, N)) * (np.pi / 2)
        return [np.concatenate([g.uniform(-9, 9, N), multiples, either_sign(g, 20, 1023), either_sign(g, -1074, 0)])]
    if name == "atan2":
        y = np.concatenate([either_sign(g, -1000, 1000), g.uniform(-9, 9, N), either_sign(g, -1070, -600)])
        return [y, np.concatenate([either_sign(g, -1000, 1000), g.uniform(-9, 9, N), either_sign(g, -60, 60)])]
    x = np.concatenate([np.exp2(g.uniform(-30, 30, N)), 1 + either_sign(g, -50, -2), -g.integers(2, 2**27, N) * 1.0])
    return [x, np.concatenate([g.uniform(-33, 33, N), g.uniform(-999, 999, N), g.integers(1, 4, N) * 1.0])]


@pytest.mark.parametrize("name", PLAIN)
def test_results_are_the_nearest(name):
    mpmath = pytest.importorskip("mpmath")
    functions = {"exp2": lambda x: mpmath.power(2, x), "log2": lambda x: mpmath.log(x) / mpmath.log(2),
                 "rsqrt": lambda x: 1 / mpmath.sqrt(x), "pow": mpmath.power}  # fmt: skip
    function = functions.get(name) or getattr(mpmath, name)

    def exactly(*numbers: float) -> float:
        sign, mantissa, exponent, _ = function(*map(mpmath.mpf, numbers))._mpf_
        value = Fraction(int(mantissa)) * Fraction(2) ** exponent
        return round_fraction(-value if sign else value, "nearest_even") if value else 0.0

    arrays = operands(name)
    with mpmath.workprec(400):
        expected = [exactly(*numbers) for numbers in zip(*(a.tolist() for a in arrays))]
    result = evaluate(name, *arrays)
    wrong = [(*x, f, e) for *x, f, e in zip(*arrays, result.tolist(), expected) if f != e]
    assert not wrong


def test_products_between_two_numbers_go_to_even():
    g = np.random.default_rng(1)
    x, y = g.integers(2, 2**27, 400) + g.choice([0, 0.5], 400), g.choice([2.0, 3.0], 400)
    expected = [round_fraction(Fraction(a) ** int(b), "nearest_even") for a, b in zip(x.tolist(), y.tolist())]
    assert evaluate("pow", x, y).tolist() == expected


@pytest.mark.parametrize("name", PLAIN)
def test_infinities_zeros_and_nans_are_numpys(name):
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -1.0, 1.0, 5e-324, -1.5, 3.0])
    arrays = [a.reshape(-1) for a in np.meshgrid(special, special)] if name in ("pow", "atan2") else [special]
    with np.errstate(all="ignore"):
        expected = PLAIN[name](*arrays)
    ours = evaluate(name, *arrays)
    assert np.allclose(ours, expected, rtol=1e-15, atol=0, equal_nan=True)
    assert (np.signbit(ours) == np.signbit(expected))[~np.isnan(expected)].all()


def test_a_file_of_cutile_python_is_parsed_first(tmp_path):
    pytest.importorskip("cuda.tile")
    path = tmp_path / "mine.py"
    path.write_text(
        "import cuda.tile as ct\n\n@ct.kernel\ndef k(a, N: ct.Constant[int]):\n"
        "    ct.store(a, index=(0,), tile=ct.full((N,), 3, dtype=a.dtype))\n\n"
        'TILEIRAS_EXPORT = {"k": (k, "f32[?]", 64)}\n'
    )
    array = np.zeros(64, np.float32)
    with pytest.raises(CompileError, match=r"tileiras\.parse"):
        interpret(str(path), "k", 1, [array, 64, 1])
    interpret(parse(path), "k", 1, [array, 64, 1])
    assert (array == 3).all()
