"""Products whose factors do not fit in registers are loops over K, and nobody can tell."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import tileiras
from tileiras.sim import emulate, interpret

DTYPES = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "tf32": np.float32, "f32": np.float32, "f64": np.float64,
    "i8": np.int8, "i32": np.int32, "f8E4M3FN": ml_dtypes.float8_e4m3fn,
}  # fmt: skip
SUMS = {"f64": "f64", "i8": "i32"}


class Product:
    """C = f(A) B of one tile; `sizes` (m, n, k) of the arrays, which tiles (m, n, k) need not divide.

    B is stored by columns where it is `transposed`.  `body` makes %r of %a and %b and the zeros %c; `kept` are further
    operands of the store.  Elements of arrays are `stored`, of factors `element`.
    """

    def __init__(self, tiles, element, sizes=None, transposed=False, stored=None):
        self.m, self.n, self.k = tiles
        self.sizes = sizes or tiles
        self.element, self.sums = element, SUMS.get(element, "f32")
        self.stored = stored or element
        self.transposed = transposed
        self.views, self.views_of, self.tiles = [], {}, {}
        m, n, k = self.sizes
        self._view("p", (m, k), (self.m, self.k), self.stored, False)
        self._view("q", (k, n), (self.k, self.n), self.stored, transposed)
        self._view("o", (m, n), (self.m, self.n), self.sums, False)
        factors = (f"tile<{self.m}x{self.k}x{element}>", f"tile<{self.k}x{self.n}x{element}>")
        operation, signs = ("mmai", " signed signed") if self.sums == "i32" else ("mmaf", "")
        self.multiply = f"%r = {operation} %a, %b, %c{signs} : {', '.join(factors)}, {self.tiles['o']}"

    def _view(self, name, shape, tile, element, transposed):
        strides = (1, shape[0]) if transposed else (shape[1], 1)
        kind = f"tensor_view<{shape[0]}x{shape[1]}x{element}, strides=[{strides[0]},{strides[1]}]>"
        self.tiles[name] = f"tile<{tile[0]}x{tile[1]}x{element}>"
        self.views_of[name] = f"partition_view<tile=({tile[0]}x{tile[1]}), padding_value = zero, {kind}>"
        self.views += [
            f"%a{name} = assume div_by<16>, %p{name} : tile<ptr<{element}>>",
            f"%t{name} = make_tensor_view %a{name}, shape = [{shape[0]}, {shape[1]}],"
            f" strides = [{strides[0]}, {strides[1]}] : {kind}",
            f"%v{name} = make_partition_view %t{name} : {self.views_of[name]}",
        ]

    def load(self, value, name):
        return (f"%{value}, %k{value} = load_view_tko weak %v{name}[%zero, %zero]"
                f" : {self.views_of[name]}, tile<i32> -> {self.tiles[name]}, token")  # fmt: skip

    def text(self, body=None):
        lines = [
            *self.views,
            "%zero = constant <i32: 0> : tile<i32>",
            f"%c = constant <{self.sums}: {'0' if self.sums == 'i32' else '0.0'}> : {self.tiles['o']}",
            *(body or [self.load("a", "p"), self.load("b", "q"), self.multiply]),
            f"%end = store_view_tko weak %r, %vo[%zero, %zero] : {self.tiles['o']}, {self.views_of['o']}, tile<i32>"
            " -> token",
            "return",
        ]
        parameters = f"%pp: tile<ptr<{self.stored}>>, %pq: tile<ptr<{self.stored}>>, %po: tile<ptr<{self.sums}>>"
        inner = "\n".join("    " + line for line in lines)
        return f"cuda_tile.module @m {{\n  entry @k({parameters}) {{\n{inner}\n  }}\n}}\n"

    def check(self, gpu_name, text=None, expected=None, steps=None, **options):
        """Interpreted = emulated = NumPy, to the bit: whole numbers, whose sums are exact.  Whether it is cut, and into
        how many `steps`."""
        text = text or self.text()
        m, n, k = self.sizes
        random = np.random.default_rng(0)
        a, b = (random.integers(-4, 5, shape).astype(DTYPES[self.stored]) for shape in ((m, k), (k, n)))
        wanted = (expected or np.matmul)(a.astype(np.float64), b.astype(np.float64)).astype(DTYPES[self.sums])
        memory = [_raw(a), _raw(np.ascontiguousarray(b.T) if self.transposed else b)]
        interpreted, actual = np.zeros((m, n), wanted.dtype), np.zeros((m, n), wanted.dtype)
        interpret(text, "k", 1, [*memory, interpreted])
        artifact = tileiras.compile(text, gpu_name=gpu_name, **options)
        emulate(artifact.text, "k", 1, [*memory, actual], metadata=artifact.kernels[0].metadata)
        np.testing.assert_array_equal(interpreted, wanted)
        np.testing.assert_array_equal(actual, wanted)
        assert steps_of(artifact) == steps


def _raw(array):
    return array.view(f"u{array.itemsize}") if array.dtype.kind == "V" else array


def steps_of(artifact):
    """Into how many steps products are cut, as remarks say; None when they are not."""
    said = [d.message for d in artifact.diagnostics if d.message.startswith("the dot of")]
    return int(said[0].split(" steps")[0].split()[-1]) if said else None


@pytest.mark.parametrize(
    ("tiles", "element", "gpu_name", "steps"),
    [
        ((64, 64, 512), "f16", "sm_75", 4),
        ((64, 64, 512), "f16", "sm_80", 4),
        ((16, 16, 1024), "bf16", "sm_90", 4),
        ((32, 32, 512), "tf32", "sm_100", 8),
        ((64, 64, 256), "f32", "sm_120", 8),
        ((64, 128, 64), "f64", "sm_80", 4),
        ((16, 16, 256), "f64", "sm_120", 16),
        ((16, 16, 2048), "i8", "sm_120", 4),
        ((64, 64, 1024), "f8E4M3FN", "sm_120", 4),
        ((64, 64, 64), "f16", "sm_80", None),
    ],
)
def test_products_of_large_factors_are_cut(tiles, element, gpu_name, steps):
    Product(tiles, element).check(gpu_name, steps=steps)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(
    ("sizes", "element", "gpu_name"),
    [((33, 64, 509), "f16", "sm_80"), ((64, 40, 72), "bf16", "sm_90"), ((60, 61, 1), "f16", "sm_75")],
)
def test_edges_of_every_dimension(sizes, element, gpu_name, transposed):
    Product((64, 64, 512), element, sizes, transposed).check(gpu_name, steps=4)


def test_what_is_computed_of_a_factor_is_made_slice_by_slice():
    product = Product((64, 64, 256), "f16", stored="f32")
    body = [product.load("x", "p"), product.load("y", "q")]
    for factor, source, name in (("a", "x", "p"), ("b", "y", "q")):
        halves = product.tiles[name].replace("f32", "f16")
        body += [
            f"%s{source} = addf %{source}, %{source} rounding<nearest_even> : {product.tiles[name]}",
            f"%{factor} = ftof %s{source} : {product.tiles[name]} -> {halves}",
        ]
    text = product.text([*body, product.multiply])
    product.check("sm_80", text, lambda a, b: 4 * (a @ b), steps=8)


def test_products_of_one_factor_are_cut_together():
    """With the first product as the other's sums, that one has a loop of its own."""
    product = Product((64, 64, 512), "f16")
    second = product.multiply.replace("%r", "%s").replace("%c", "%r")
    store = f"%twice = addf %r, %s rounding<nearest_even> : {product.tiles['o']}"
    text = product.text([product.load("a", "p"), product.load("b", "q"), product.multiply, second, store])
    text = text.replace("weak %r,", "weak %twice,")
    product.check("sm_80", text, lambda a, b: 3 * (a @ b), steps=4)


def test_a_tile_times_itself_turned():
    product = Product((64, 64, 512), "f16")
    factors = "tile<64x512xf16>", "tile<512x64xf16>"
    turned = f"%b = permute %a [1, 0] : {factors[0]} -> {factors[1]}"
    text = product.text([product.load("a", "p"), turned, product.multiply])
    product.check("sm_90", text, lambda a, b: a @ a.T, steps=4)


def test_a_tile_times_itself_stays_whole():
    """Its rows and its columns would be cut at a time."""
    product = Product((128, 128, 128), "f16")
    text = product.text([product.load("a", "p"), product.multiply.replace("%b", "%a")])
    product.check("sm_80", text, lambda a, b: a @ a, num_warps=4)


def test_rows_of_a_factor_are_reduced_in_a_loop_before():
    """What is needed of whole rows is complete before the product begins, and loads the factor again."""
    product = Product((64, 64, 512), "f32", stored="f32")
    t = product.tiles["p"]
    body = f"""%m = reduce %x dim=1 identities=[0xFF800000 : f32] : {t} -> tile<64xf32>
               (%u: tile<f32>, %v: tile<f32>) {{
                 %w = maxf %u, %v : tile<f32>
                 yield %w : tile<f32>
               }}
               %m1 = reshape %m : tile<64xf32> -> tile<64x1xf32>
               %m2 = broadcast %m1 : tile<64x1xf32> -> {t}
               %a = subf %x, %m2 rounding<nearest_even> : {t}"""
    text = product.text([product.load("x", "p"), body, product.load("b", "q"), product.multiply])
    product.check("sm_80", text, lambda a, b: (a - a.max(1, keepdims=True)) @ b, steps=8)


def test_a_store_after_the_loads_stays_behind_them():
    """C is written where A was read."""
    product = Product((64, 64, 512), "f32")
    text = product.text().replace("%vo[%zero, %zero] :", "%vo[%zero, %zero] token = %both :")
    text = text.replace("    %end", "    %both = join_tokens %ka, %kb : token\n    %end")
    assert "token = %both" in text
    product.check("sm_90", text, steps=8)


@pytest.mark.parametrize(("gpu_name", "steps"), [("sm_75", 4), ("sm_80", None), ("sm_90", None), ("sm_120", 4)])
def test_products_in_loops_are_cut_where_shared_memory_does_not_hold_their_factors(gpu_name, steps):
    """Of 128 KiB; sm_75 has no copies that fill it by themselves."""
    product = Product((64, 64, 512), "f16")
    one = "%one = constant <i32: 1> : tile<i32>"
    result = product.tiles["o"]
    body = [product.load("a", "p"), product.load("b", "q"),
            product.multiply.replace("%r", "%s").replace("%c", "%before"), f"continue %s : {result}"]  # fmt: skip
    loop = (f"%r = for %i in (%zero to %one, step %one) : tile<i32> iter_values(%before = %c) -> ({result}) {{\n"
            + "\n".join(body) + "\n}")  # fmt: skip
    product.check(gpu_name, product.text([one, loop]), steps=steps)
