"""Intervals of error: results of right code lie inside, and they are not wider than the operations require."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import tileiras
from tests.kernels.checked import module, row_sums, rows
from tileiras.check.bound_rules import FUNCTION_ULPS
from tileiras.check.coverage import Coverage
from tileiras.check.fitting import Fitted, Plan
from tileiras.check.judging import Reference, interpreted
from tileiras.lowering.math_to_funcs import FUNCTIONS
from tileiras.sim.emulator.tensor_core.narrow_sums import narrow_sum
from tileiras.stages.units import entries_of


def reference(text: str, *arguments: object, grid: int = 1, narrow_f8: bool = False, **options: object) -> Reference:
    parsed = tileiras.parse(text)
    (entry,) = entries_of(parsed)
    launch = Fitted((grid, 1, 1), list(arguments), Plan({}))
    return interpreted(parsed, "k", launch, Coverage(entry), options, narrow_f8=narrow_f8)


def ends(made: Reference, position: int) -> tuple[np.ndarray, np.ndarray]:
    """The least and the greatest allowed value of each element; the element itself where it is exact."""
    values = made.arguments[position].astype(np.float64)
    result = made.bounds(position, made.arguments[position].dtype.itemsize)
    if result is None:
        return values, values
    bounds, active = result
    return np.where(active, bounds.low, values), np.where(active, bounds.high, values)


def on_rows(text: str, values: np.ndarray, **options: object) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    result = reference(text, values, np.zeros_like(values), len(values), **options)
    return (result.arguments[1], *ends(result, 1))


def normal(count: int = 256, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(count).astype(np.float32)


@pytest.mark.parametrize("operation", ["addf %value, %value", "mulf %value, %value", "divf %value, %value"])
def test_one_rounded_operation_is_exact(operation):
    _, low, high = on_rows(rows(f"%result = {operation} : tile<256xf32>"), normal())
    assert np.array_equal(low, high, equal_nan=True)


def test_sums_of_whole_numbers_are_exact():
    values = np.random.default_rng(3).integers(-3, 4, 256).astype(np.float32)
    got, low, high = on_rows(row_sums(), values)
    assert (low == high).all() and (got == values.sum()).all()


@pytest.mark.parametrize("name", sorted(FUNCTIONS.keys() - {"arith.remf"}))
def test_functions_of_libdevice_have_an_error(name):
    """The remainder is exact."""
    named = {"powf": "fpowf"}.get(name.partition(".")[2], name.partition(".")[2])
    assert named in FUNCTION_ULPS


@pytest.mark.parametrize(("name", "of_last_place"), [("exp", 4), ("tanh", 8000)])
def test_approximations_have_their_own_error(name, of_last_place):
    got, low, high = on_rows(rows(f"%result = {name} %value rounding<approx> : tile<256xf32>"), normal(seed=3))
    unit = np.abs(np.spacing(got).astype(np.float64))
    assert (low <= got).all() and (got <= high).all()
    assert (high - got >= of_last_place * unit / 2).all() and (high - low <= 4 * max(of_last_place, 8) * unit).all()


def test_products_of_subnormal_parts_are_in_any_order():
    """The product of the first two is 0 if it is rounded by itself."""
    text = row_sums(4).replace("addf", "mulf").replace("identities=[0.0", "identities=[1.0")
    values = np.array([1e-30, 1e-30, 1e30, 1e5], np.float32)
    got, low, high = on_rows(text, values)
    assert (low <= 0).all() and (high >= 1e-25).all() and (high < 1e-3).all()


def test_integer_powers_have_the_error_of_their_multiplications():
    body = """%fifty = constant <i32: 50> : tile<256xi32>
              %result = fpowi %value, %fifty : tile<256xf32>, tile<256xi32>"""
    values = 1 + np.abs(normal(seed=5)) / 100
    got, low, high = on_rows(rows(body), values)
    power = np.ones_like(values)
    for _ in range(50):
        power *= values
    assert (low <= power).all() and (power <= high).all()
    assert (high - low < 130 * np.spacing(got).astype(np.float64)).all()


def test_a_sum_may_be_taken_in_any_order():
    values = normal(seed=1)
    _, low, high = on_rows(row_sums(), values)
    for seed in range(20):
        total = np.float32(0)
        for value in np.random.default_rng(seed).permutation(values):
            total += value
        assert low[0] <= total <= high[0]
    assert high[0] - low[0] < 256 * 2.0**-22 * np.abs(values).sum()


def test_a_missing_term_is_outside_of_a_sum():
    values = normal(seed=2)
    _, low, high = on_rows(row_sums(), values)
    totals = values.astype(np.float64).sum() - values
    assert not ((low <= totals) & (totals <= high)).any()


@pytest.mark.parametrize(("name", "units"), [("exp", 2), ("log", 1), ("cos", 2)])
def test_functions_are_off_by_units_of_the_last_place(name, units):
    values = np.abs(normal(seed=3)) + np.float32(0.25)
    got, low, high = on_rows(rows(f"%result = {name} %value : tile<256xf32>"), values)
    unit = np.spacing(np.abs(got)).astype(np.float64)
    assert np.allclose((high - low) / unit, 2 * units)


def test_errors_grow_through_operations():
    body = """%p = exp %value : tile<256xf32>
              %q = mulf %p, %p : tile<256xf32>
              %result = subf %q, %p : tile<256xf32>"""
    values = normal(seed=4)
    got, low, high = on_rows(rows(body), values)
    for step in (-2, 2):
        p = np.exp(values.astype(np.float64)).astype(np.float32)
        p = p + np.float32(step) * np.spacing(p)
        assert ((low <= p * p - p) & (p * p - p <= high)).all()
    assert (high - low <= 64 * np.spacing(np.exp(2 * np.abs(values)))).all()


def test_where_a_branch_is_open_both_values_are_allowed():
    body = """%p = exp2 %value : tile<256xf32>
              %one = constant <f32: 1.0> : tile<256xf32>
              %eight = constant <f32: 8.0> : tile<256xf32>
              %less = cmpf greater_than ordered %p, %one : tile<256xf32> -> tile<256xi1>
              %result = select %less, %eight, %value : tile<256xi1>, tile<256xf32>"""
    values = np.array([0.0, 1.0, -1.0] * 80, np.float32)
    _, low, high = on_rows(rows(body), values)
    assert low[:3].tolist() == [0.0, 8.0, -1.0] and high[:3].tolist() == [8.0, 8.0, -1.0]


def test_a_product_with_zero_has_an_open_sign_too():
    """The logarithm of 1 is 0, and has an error; the product with zero is one of both zeros, and zeros are equal."""
    body = """%p = log %value : tile<256xf32>
              %none = constant <f32: 0.0> : tile<256xf32>
              %zero = mulf %p, %none : tile<256xf32>
              %equal = cmpf equal ordered %zero, %none : tile<256xf32> -> tile<256xi1>
              %result = select %equal, %{} , %value : tile<256xi1>, tile<256xf32>"""
    values = np.array([1.0, 2.0] * 128, np.float32)
    _, low, high = on_rows(rows(body.format("zero")), values)
    assert np.signbit(low[:2]).tolist() == [True, False] and not np.signbit(high[:2]).any()
    assert not low.any() and not high.any()
    _, low, high = on_rows(rows(body.format("none")), values)
    assert not np.signbit(low).any() and not high.any()


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
def test_sums_with_nans_and_infinities_are_exact(special):
    values = normal(seed=5)
    values[7] = special
    got, low, high = on_rows(row_sums(), values)
    assert np.array_equal(low, got, equal_nan=True) and np.array_equal(high, got, equal_nan=True)


def test_partial_sums_that_overflow_allow_anything():
    values = np.zeros(256, np.float32)
    values[:4] = np.array([3e38, 3e38, -3e38, -3e38])
    _, low, high = on_rows(row_sums(), values)
    assert low[0] == -np.inf and high[0] == np.inf


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
def test_an_infinity_is_open_beside_terms_that_overflow(special):
    """The sum of the large terms is infinite as well: of the other sign, it makes NaN."""
    values = np.zeros(256, np.float32)
    values[:3] = special, 3e38, 3e38
    got, low, high = on_rows(row_sums(), values)
    assert got[0] == special or np.isnan(got[0])
    if np.isnan(special):
        assert np.isnan(low[0]) and np.isnan(high[0])
    else:
        assert (low[0], high[0]) == (-np.inf, np.inf)


def test_flushing_is_allowed_where_it_is_asked_for():
    text, values = rows("%result = addf %value, %value : tile<256xf32>"), np.full(256, 1e-40, np.float32)
    assert on_rows(text, values)[1][0] > 0
    _, low, high = on_rows(text, values, ftz=True)
    assert low[0] == 0 and high[0] == 2 * float(values[0])


PRODUCT = """
    %zero = constant <i32: 0> : tile<i32>
    %am = make_tensor_view %a, shape = [16, 32], strides = [32, 1] : tensor_view<16x32xf16, strides=[32,1]>
    %bm = make_tensor_view %b, shape = [32, 16], strides = [16, 1] : tensor_view<32x16xf16, strides=[16,1]>
    %cm = make_tensor_view %c, shape = [16, 16], strides = [16, 1] : tensor_view<16x16xf32, strides=[16,1]>
    %at = make_partition_view %am : partition_view<tile=(16x32), tensor_view<16x32xf16, strides=[32,1]>>
    %bt = make_partition_view %bm : partition_view<tile=(32x16), tensor_view<32x16xf16, strides=[16,1]>>
    %ct = make_partition_view %cm : partition_view<tile=(16x16), tensor_view<16x16xf32, strides=[16,1]>>
    %x, %t0 = load_view_tko weak %at[%zero, %zero]
        : partition_view<tile=(16x32), tensor_view<16x32xf16, strides=[32,1]>>, tile<i32> -> tile<16x32xf16>, token
    %y, %t1 = load_view_tko weak %bt[%zero, %zero]
        : partition_view<tile=(32x16), tensor_view<32x16xf16, strides=[16,1]>>, tile<i32> -> tile<32x16xf16>, token
    %none = constant <f32: 0.0> : tile<16x16xf32>
    %sum = mmaf %x, %y, %none : tile<16x32xf16>, tile<32x16xf16>, tile<16x16xf32>
    %t2 = store_view_tko weak %sum, %ct[%zero, %zero]
        : tile<16x16xf32>, partition_view<tile=(16x16), tensor_view<16x16xf32, strides=[16,1]>>, tile<i32> -> token"""


@pytest.mark.parametrize("whole", [True, False])
def test_products_are_exact_for_whole_numbers_alone(whole):
    generator = np.random.default_rng(6)
    a, b = (generator.integers(-3, 4, 512).astype(np.float16) if whole
            else generator.standard_normal(512).astype(np.float16) for _ in range(2))  # fmt: skip
    result = reference(module(PRODUCT, "%a: tile<ptr<f16>>, %b: tile<ptr<f16>>, %c: tile<ptr<f32>>"),
                     a, b, np.zeros(256, np.float32))  # fmt: skip
    low, high = ends(result, 2)
    exact = a.reshape(16, 32).astype(np.float64) @ b.reshape(32, 16).astype(np.float64)
    assert ((low <= exact.reshape(-1)) & (exact.reshape(-1) <= high)).all()
    size = np.abs(a.reshape(16, 32)).astype(np.float64) @ np.abs(b.reshape(32, 16)).astype(np.float64)
    assert (high - low <= (0 if whole else 70 * 2.0**-23) * size.reshape(-1) + 1e-44).all()


@pytest.mark.parametrize(("large", "is_open"), [(1.0, False), (3e38, True)])
@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
def test_products_with_infinities_are_open_where_others_overflow(special, large, is_open):
    a, b = np.ones((16, 32), ml_dtypes.bfloat16), np.full((32, 16), large, ml_dtypes.bfloat16)
    a[3, 5] = special
    text = module(PRODUCT.replace("f16", "bf16"), "%a: tile<ptr<bf16>>, %b: tile<ptr<bf16>>, %c: tile<ptr<f32>>")
    result = reference(text, a.reshape(-1), b.reshape(-1), np.zeros(256, np.float32))
    low, high = (end.reshape(16, 16)[3] for end in ends(result, 2))
    if is_open and not np.isnan(special):
        assert (low == -np.inf).all() and (high == np.inf).all()
    else:
        assert np.array_equal(low, np.full(16, special), equal_nan=True) and np.array_equal(high, low, equal_nan=True)


def narrow_product(fast: str, c: float) -> str:
    text = PRODUCT.replace("f16", "f8E4M3FN").replace("%x, %y, %none :", f"%x, %y, %none {fast} :")
    return text.replace("<f32: 0.0>", f"<f32: {c}>")


@pytest.mark.parametrize("fast", ["", "fast_acc"])
@pytest.mark.parametrize("c", [0.0, 16384.0])
def test_f8_sums_of_hopper_lose_bits(fast, c):
    generator = np.random.default_rng(8)
    a, b = (generator.standard_normal(512).astype(ml_dtypes.float8_e4m3fn) for _ in range(2))
    text = module(narrow_product(fast, c), "%a: tile<ptr<f8E4M3FN>>, %b: tile<ptr<f8E4M3FN>>, %c: tile<ptr<f32>>")
    wide, narrow = (reference(text, a, b, np.zeros(256, np.float32), narrow_f8=flag) for flag in (False, True))
    left, right = a.reshape(16, 32).astype(np.float64), b.reshape(32, 16).astype(np.float64)
    low, high = ends(narrow, 2)
    if fast:
        actual = narrow_sum(left, right, ("e4m3", "e4m3"), np.full((16, 16), c))
    else:
        actual = narrow_sum(left, right, ("e4m3", "e4m3"), 0.0).astype(np.float32) + np.float32(c)
    assert ((low <= actual.reshape(-1)) & (actual.reshape(-1) <= high)).all()
    low_wide, high_wide = ends(wide, 2)
    if fast or not c:
        assert not ((low_wide <= actual.reshape(-1)) & (actual.reshape(-1) <= high_wide)).all()
    else:
        assert (high - low < 1).all(), "the accumulator is outside of the narrow sums"


ATOMIC = """
    %t0 = make_token : token
    %old, %t1 = load_ptr_tko weak %x : tile<ptr<f32>> -> tile<f32>, token
    %place, %y, %z = get_tile_block_id : tile<i32>
    %from = offset %x, %place : tile<ptr<f32>>, tile<i32> -> tile<ptr<f32>>
    %value, %t2 = load_ptr_tko weak %from : tile<ptr<f32>> -> tile<f32>, token
    %was, %t3 = atomic_rmw_tko relaxed device %out, addf, %value : tile<ptr<f32>>, tile<f32> -> tile<f32>, token"""


@pytest.mark.parametrize("whole", [True, False])
def test_atomic_additions_have_the_bound_of_a_sum(whole):
    values = np.arange(1, 9, dtype=np.float32) if whole else normal(8, 7)
    text = module(ATOMIC, "%x: tile<ptr<f32>>, %out: tile<ptr<f32>>")
    result = reference(text, values, np.zeros(1, np.float32), grid=8)
    low, high = ends(result, 1)
    exact = values.astype(np.float64).sum()
    assert low[0] <= exact <= high[0] and (high[0] - low[0] == 0) == whole
    assert high[0] - low[0] < 1e-4
    assert not low[0] <= exact - float(values[3]) <= high[0], "one addition is missing"


def test_an_operation_without_a_rule_is_named():
    body = """%p = exp %value : tile<256xf32>
              %bits = bitcast %p : tile<256xf32> -> tile<256xi32>
              %result = bitcast %bits : tile<256xi32> -> tile<256xf32>"""
    result = reference(rows(body), normal(), np.zeros(256, np.float32), 256)
    assert result.machine.unruled == {"cuda_tile.bitcast"}
    low, high = ends(result, 1)
    assert (low == -np.inf).all() and (high == np.inf).all()


def test_atomic_extrema_of_rounded_numbers_have_their_interval():
    """The greatest magnitude of each row's exponentials, as bits, by `max` of integers: of two tiles, one of them
    masked in part."""
    body = """
    %block, %y, %z = get_tile_block_id : tile<i32>
    %lane = iota : tile<8xi32>
    %five = constant <i32: 5> : tile<8xi32>
    %some = cmpi less_than %lane, %five, signed : tile<8xi32> -> tile<8xi1>
    %x_1 = reshape %x : tile<ptr<f32>> -> tile<1xptr<f32>>
    %x_8 = broadcast %x_1 : tile<1xptr<f32>> -> tile<8xptr<f32>>
    %x_at = offset %x_8, %lane : tile<8xptr<f32>>, tile<8xi32> -> tile<8xptr<f32>>
    %value, %t0 = load_ptr_tko weak %x_at : tile<8xptr<f32>> -> tile<8xf32>, token
    %power = exp %value : tile<8xf32>
    %bits = bitcast %power : tile<8xf32> -> tile<8xi32>
    %o_1 = reshape %out : tile<ptr<i32>> -> tile<1xptr<i32>>
    %o_8 = broadcast %o_1 : tile<1xptr<i32>> -> tile<8xptr<i32>>
    %o_at = offset %o_8, %lane : tile<8xptr<i32>>, tile<8xi32> -> tile<8xptr<i32>>
    %old, %t1 = atomic_rmw_tko relaxed device %o_at, max, %bits, %some
        : tile<8xptr<i32>>, tile<8xi32>, tile<8xi1> -> tile<8xi32>, token
    %last = constant <i32: 8> : tile<8xi32>
    %same = offset %o_8, %last : tile<8xptr<i32>>, tile<8xi32> -> tile<8xptr<i32>>
    %old_2, %t2 = atomic_rmw_tko relaxed device %same, max, %bits
        : tile<8xptr<i32>>, tile<8xi32> -> tile<8xi32>, token"""
    text = module(body, "%x: tile<ptr<f32>>, %out: tile<ptr<i32>>")
    verdict = tileiras.check(text, gpu_name="sm_90")
    assert verdict.status == "right", str(verdict)


@pytest.mark.parametrize("name", ["scan", "reduce"])
def test_an_order_of_integers_that_changes_the_result_is_open(name):
    """A maximum of running sums depends on the bracketing where they overflow; of a reduction the order of elements is
    open, too."""
    tail = "dim=0 reverse=false identities=[0 : i32, 0 : i32]" if name == "scan" else \
        "dim=0 identities=[0 : i32, 0 : i32]"  # fmt: skip
    kind = "tile<256xi32>" if name == "scan" else "tile<i32>"
    body = f"""
    %r, %s = {name} %value, %value {tail} : tile<256xi32>, tile<256xi32> -> {kind}, {kind}
        (%a: tile<i32>, %b: tile<i32>, %c: tile<i32>, %d: tile<i32>) {{
      %e = addi %c, %b : tile<i32>
      %f = maxi %a, %e signed : tile<i32>
      %g = addi %c, %d : tile<i32>
      yield %f, %g : tile<i32>, tile<i32>
    }}
    """ + ("%result = addi %r, %r : tile<256xi32>" if name == "scan" else """
    %r_1 = reshape %r : tile<i32> -> tile<1xi32>
    %result = broadcast %r_1 : tile<1xi32> -> tile<256xi32>""")
    small = np.arange(256, dtype=np.int32) - 128
    large = np.random.default_rng(3).integers(-(2**31), 2**31, 256, np.int32)
    text = rows(body, element="i32")
    made = reference(text, small, np.zeros(256, np.int32), 256)
    assert len(made.machine.unordered) == (name == "reduce")
    made = reference(text, large, np.zeros(256, np.int32), 256)
    assert len(made.machine.unordered) == 1 and made.bounds(1, 4)[1].any()
    verdict = tileiras.check(text, gpu_name="sm_90", launches=[((1, 1, 1), [large, large * 0, np.int32(256)])])
    assert verdict.status == "right", str(verdict)


def test_products_that_overflow_in_another_order_are_open():
    """1e-30 * 1e30 * 1e30 is 1e30 from the left, and infinite from the right: the result of a linear recurrence."""
    kind = "tile<256xf32>"
    text = rows(f"""
    %p, %result = scan %value, %value dim=0 reverse=false identities=[1.0 : f32, 0.0 : f32] : {kind}, {kind}
        -> {kind}, {kind} (%a: tile<f32>, %b: tile<f32>, %c: tile<f32>, %d: tile<f32>) {{
      %e = mulf %a, %b : tile<f32>
      %f = fma %c, %b, %d : tile<f32>
      yield %e, %f : tile<f32>, tile<f32>
    }}""")
    x = np.ones(256, np.float32)
    x[:3] = 1e-30, 1e30, 1e30
    low, high = ends(reference(text, x, np.zeros(256, np.float32), 256), 1)
    assert np.isfinite(low[0]) and low[2] == -np.inf and high[2] == np.inf
    verdict = tileiras.check(text, gpu_name="sm_90")
    assert verdict.status == "right", str(verdict)


def pairs(kind: str, combined: str) -> str:
    """The first of two results of a scan or reduction of pairs (x, x), along rows of 16."""
    t, order = "tile<16x16xf32>", " reverse=false" if kind == "scan" else ""
    result = t if kind == "scan" else "tile<16xf32>"
    wide = "" if kind == "scan" else f"""
    %column = reshape %p : tile<16xf32> -> tile<16x1xf32>
    %p_all = broadcast %column : tile<16x1xf32> -> {t}"""
    return rows(f"""
    %x2 = reshape %value : tile<256xf32> -> {t}
    %p, %q = {kind} %x2, %x2 dim=1{order} identities=[1.0 : f32, 0.0 : f32] : {t}, {t}
        -> {result}, {result} (%a: tile<f32>, %b: tile<f32>, %c: tile<f32>, %d: tile<f32>) {{
{combined}
    }}{wide}
    %result = reshape {"%p" if kind == "scan" else "%p_all"} : {t} -> tile<256xf32>""")


COMPLEX = """
      %e = mulf %a, %b : tile<f32>
      %f = mulf %c, %d : tile<f32>
      %g = subf %e, %f : tile<f32>
      %h = mulf %a, %d : tile<f32>
      %i = fma %c, %b, %h : tile<f32>
      yield %g, %i : tile<f32>, tile<f32>"""


@pytest.mark.parametrize("kind", ["scan", "reduce"])
def test_products_of_complex_numbers_have_bounds(kind):
    x = np.random.default_rng(5).standard_normal(256).astype(np.float32)
    value, low, high = on_rows(pairs(kind, COMPLEX), x)
    numbers = x.reshape(16, 16) * (1 + 1j)
    exact = np.cumprod(numbers, 1) if kind == "scan" else np.prod(numbers, 1, keepdims=True) * np.ones(16)
    assert ((low <= exact.real.reshape(-1)) & (exact.real.reshape(-1) <= high)).all()
    assert np.isfinite(low).all() and (high - low <= 1e-3 * np.abs(numbers).clip(1).prod(1).max()).all()


def test_reductions_take_their_elements_in_any_order():
    """Neither the specification nor the vendor's compiler keeps the order of elements; that of a scan is fixed."""
    recurrence = "%e = fma %a, %d, %b : tile<f32>\n      yield %e, %d : tile<f32>, tile<f32>"
    x = np.arange(256, dtype=np.float32) % 5 - 2
    for kind, is_open in (("scan", False), ("reduce", True)):
        _, low, high = on_rows(pairs(kind, recurrence), x)
        assert ((low == -np.inf) & (high == np.inf)).any() == is_open, kind
