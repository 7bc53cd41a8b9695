"""Facts about integers and pointers: through arithmetic, ranges, comparisons and loops."""

from __future__ import annotations

from tileiras.analysis.divisibility import DivisibilityAnalysis
from tileiras.dialects import arith, nv_tileaa, scf
from tileiras.ir import parse_module

HEAD = "kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = \"sm_90\""


def analyse(body: str, arguments: str = "%p: !nv_tileaa.ptr<f32>, %n: i32"):
    text = f"builtin.module {{ nv_tileaa.func @f({arguments}) attributes {{{HEAD}}} {{\n{body}\nnv_tileaa.return }} }}"
    func = parse_module(text, "test.mlir").regions[0].block.first
    return func, DivisibilityAnalysis(func)


def last(func, kind):
    return [op for op in func.walk() if isinstance(op, kind)][-1]


def test_products_multiply_and_sums_keep_the_weaker() -> None:
    func, facts = analyse(
        """%a = nv_tileaa.assume #nv_tileaa.div_by<16>, %n : i32
           %c = arith.constant 12 : i32
           %m = arith.muli %a, %c : i32
           %s = arith.addi %m, %c : i32"""
    )
    assert facts.divisor(last(func, arith.MulIOp).result) == 64
    assert facts.divisor(last(func, arith.AddIOp).result) == 4


def test_zero_is_divisible_by_everything() -> None:
    func, facts = analyse("%c = arith.constant 0 : i32\n%s = arith.addi %c, %c : i32")
    assert facts.divisor(last(func, arith.AddIOp).result) >= 1 << 60


def test_pointers_into_a_range_are_contiguous_and_aligned() -> None:
    func, facts = analyse(
        """%a = nv_tileaa.assume #nv_tileaa.div_by<16>, %p : !nv_tileaa.ptr<f32>
           %base = nv_tileaa.splat %a : !nv_tileaa.ptr<f32> -> tensor<64x!nv_tileaa.ptr<f32>>
           %r = nv_tileaa.make_range : tensor<64xi32>
           %q = nv_tileaa.addptr %base, %r : tensor<64x!nv_tileaa.ptr<f32>>, tensor<64xi32>"""
    )
    pointers = last(func, nv_tileaa.AddPtrOp).result
    assert facts.contiguity(pointers) == (64,)
    assert facts.divisor(pointers) == 16


def test_an_unknown_offset_breaks_alignment_but_not_contiguity() -> None:
    func, facts = analyse(
        """%a = nv_tileaa.assume #nv_tileaa.div_by<16>, %p : !nv_tileaa.ptr<f32>
           %b = nv_tileaa.addptr %a, %n : !nv_tileaa.ptr<f32>, i32
           %base = nv_tileaa.splat %b : !nv_tileaa.ptr<f32> -> tensor<64x!nv_tileaa.ptr<f32>>
           %r = nv_tileaa.make_range : tensor<64xi32>
           %q = nv_tileaa.addptr %base, %r : tensor<64x!nv_tileaa.ptr<f32>>, tensor<64xi32>"""
    )
    pointers = last(func, nv_tileaa.AddPtrOp).result
    assert facts.contiguity(pointers) == (64,)
    assert facts.divisor(pointers) == 4


def test_a_scaled_range_is_not_contiguous() -> None:
    func, facts = analyse(
        """%r = nv_tileaa.make_range : tensor<64xi32>
           %two = arith.constant dense<2> : tensor<64xi32>
           %q = arith.muli %r, %two : tensor<64xi32>"""
    )
    scaled = last(func, arith.MulIOp).result
    assert facts.contiguity(scaled) == (1,)
    assert facts.divisor(scaled) == 2


def test_a_mask_is_constant_over_runs_that_divide_its_bound() -> None:
    body = """%b = nv_tileaa.assume #nv_tileaa.div_by<8>, %n : i32
              %bound = nv_tileaa.splat %b : i32 -> tensor<64xi32>
              %r = nv_tileaa.make_range : tensor<64xi32>
              %m = arith.cmpi PREDICATE, %r, %bound : tensor<64xi32>"""
    for predicate, expected in (("slt", 8), ("sge", 8), ("ult", 8), ("sle", 1), ("eq", 1)):
        func, facts = analyse(body.replace("PREDICATE", predicate))
        assert facts.constancy(last(func, arith.CmpIOp).result) == (expected,), predicate


def test_a_loop_keeps_facts_that_every_iteration_keeps() -> None:
    func, facts = analyse(
        """%a = nv_tileaa.assume #nv_tileaa.div_by<64>, %p : !nv_tileaa.ptr<f32>
           %z = arith.constant 0 : i32
           %four = arith.constant 4 : i32
           %e = scf.for %i = %z to %n step %four iter_args(%q = %a) -> (!nv_tileaa.ptr<f32>) : i32 {
             %next = nv_tileaa.addptr %q, %i : !nv_tileaa.ptr<f32>, i32
             scf.yield %next : !nv_tileaa.ptr<f32>
           }"""
    )
    loop = last(func, scf.ForOp)
    assert facts.divisor(loop.induction_variable) == 4
    assert facts.divisor(loop.iter_args[0]) == 16
    assert facts.divisor(loop.results[0]) == 16


RUNS = """%r = nv_tileaa.make_range : tensor<64xi32>
          %n16 = nv_tileaa.assume #nv_tileaa.div_by<16>, %n : i32
          %sixteens = nv_tileaa.splat %n16 : i32 -> tensor<64xi32>
          %numbers = arith.addi %r, %sixteens : tensor<64xi32>"""


def test_a_product_by_one_is_the_number_itself() -> None:
    func, facts = analyse(f"{RUNS}\n%one = arith.constant dense<1> : tensor<64xi32>\n"
                          "%m = arith.muli %numbers, %one : tensor<64xi32>")  # fmt: skip
    product = last(func, arith.MulIOp).result
    assert (facts.contiguity(product), facts.divisor(product)) == ((64,), 16)


def test_runs_have_one_quotient_where_it_is_rounded_down() -> None:
    def quotient(op: str, by: str = "dense<8>"):
        func, facts = analyse(f"{RUNS}\n%eight = arith.constant {by} : tensor<64xi32>\n"
                              f"%q = arith.{op} %numbers, %eight : tensor<64xi32>")  # fmt: skip
        return facts.constancy(func.regions[0].block.last.prev.results[0])

    assert quotient("floordivsi") == quotient("divui") == (8,)
    # -8 / 8 is -1, and (-8 + 1) / 8 is 0 when it is truncated or rounded up.
    assert quotient("divsi") == quotient("ceildivsi") == (1,)
    # 0 / -8 is 0, and 1 / -8 is -1 when it is rounded down.
    assert quotient("floordivsi", "dense<-8>") == (1,)


def test_a_quotient_of_multiples_by_a_power_of_two_is_a_multiple() -> None:
    func, facts = analyse(
        """%a = nv_tileaa.assume #nv_tileaa.div_by<64>, %n : i32
           %c = arith.constant 16 : i32
           %q = arith.ceildivsi %a, %c : i32"""
    )
    assert facts.divisor(last(func, arith.CeilDivSIOp).result) == 4


def test_remainders_of_runs_are_runs_unless_negative() -> None:
    def remainder(op: str, of: str):
        func, facts = analyse(f"{RUNS}\n%eight = arith.constant dense<24> : tensor<64xi32>\n"
                              f"%m = arith.{op} {of}, %eight : tensor<64xi32>")  # fmt: skip
        value = func.regions[0].block.last.prev.results[0]
        return facts.contiguity(value), facts.divisor(value)

    assert remainder("remsi", "%r") == remainder("remui", "%numbers") == ((8,), 8)
    assert remainder("remsi", "%numbers") == ((1,), 1)


def test_a_choice_keeps_runs_that_are_chosen_as_a_whole() -> None:
    func, facts = analyse(
        f"""{RUNS}
           %c = arith.constant dense<32> : tensor<64xi32>
           %first = arith.cmpi slt, %r, %c : tensor<64xi32>
           %s = arith.select %first, %numbers, %r : tensor<64xi1>, tensor<64xi32>
           %one = arith.constant dense<1> : tensor<64xi32>
           %odd = arith.andi %r, %one : tensor<64xi32>
           %zero = arith.constant dense<0> : tensor<64xi32>
           %even = arith.cmpi eq, %odd, %zero : tensor<64xi32>
           %t = arith.select %even, %numbers, %r : tensor<64xi1>, tensor<64xi32>"""
    )
    whole, mixed = (op.result for op in func.walk() if isinstance(op, arith.SelectOp))
    assert (facts.contiguity(whole), facts.divisor(whole)) == ((32,), 16)
    assert facts.contiguity(mixed) == (1,)


def test_a_known_choice_is_taken() -> None:
    """As where a remainder that is never negative is corrected for being so."""
    func, facts = analyse(
        f"""{RUNS}
           %zero = arith.constant dense<0> : tensor<64xi32>
           %negative = arith.cmpi slt, %r, %zero : tensor<64xi32>
           %other = arith.cmpi ne, %numbers, %zero : tensor<64xi32>
           %both = arith.andi %negative, %other : tensor<64xi1>
           %s = arith.select %both, %sixteens, %r : tensor<64xi1>, tensor<64xi32>"""
    )
    assert facts.contiguity(last(func, arith.SelectOp).result) == (64,)
