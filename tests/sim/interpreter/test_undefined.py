"""Undefined values are distinguished from others, and no result may depend on them."""

import io

import numpy as np
import pytest

from tileiras.sim import InterpreterError, Memory, interpret

HEAD = """cuda_tile.module @m { entry @k(%a: tile<ptr<i32>>, %r: tile<ptr<i32>>) {
    %zero = constant <i32: 0> : tile<i32>
    %lane = iota : tile<8xi32>
    %five = constant <i32: 5> : tile<8xi32>
    %mask = cmpi less_than %lane, %five, signed : tile<8xi32> -> tile<8xi1>
    %a1 = reshape %a : tile<ptr<i32>> -> tile<1xptr<i32>>
    %a8 = broadcast %a1 : tile<1xptr<i32>> -> tile<8xptr<i32>>
    %as = offset %a8, %lane : tile<8xptr<i32>>, tile<8xi32> -> tile<8xptr<i32>>
    %r1 = reshape %r : tile<ptr<i32>> -> tile<1xptr<i32>>
    %r8 = broadcast %r1 : tile<1xptr<i32>> -> tile<8xptr<i32>>
    %rs = offset %r8, %lane : tile<8xptr<i32>>, tile<8xi32> -> tile<8xptr<i32>>
    %x, %t = load_ptr_tko weak %as, %mask : tile<8xptr<i32>>, tile<8xi1> -> tile<8xi32>, token
"""
STORE = "%s = store_ptr_tko weak %rs, %y : tile<8xptr<i32>>, tile<8xi32> -> token\n"
TAIL = "return\n}\n}\n"
LAST = "%seven = constant <i32: 7> : tile<i32>\n%e = extract %x[%seven] : tile<8xi32> -> tile<1xi32>\n"
SCALAR = LAST + "%u = reshape %e : tile<1xi32> -> tile<i32>\n"


def run(body: str, **options):
    a, r = np.arange(1, 9, dtype=np.int32), np.zeros(8, np.int32)
    return interpret(HEAD + body + TAIL, "k", 1, [a, r], **options), r


def test_elements_that_a_mask_leaves_out():
    undefined, r = run("%y = addi %x, %lane : tile<8xi32>\n" + STORE)
    assert list(undefined) == [1]
    assert undefined[1].tolist() == [False] * 5 + [True] * 3
    assert r[:5].tolist() == [1, 3, 5, 7, 9]


@pytest.mark.parametrize("operation", ["divi", "remi"])
def test_quotients_by_undefined_elements_are_undefined(operation):
    zeros = "%three = constant <i32: 0> : tile<8xi32>\n" if operation == "remi" else ""
    zeros = zeros or "%three = constant <i32: 3> : tile<8xi32>\n"
    undefined, _ = run(zeros + f"%y = {operation} %three, %x signed : tile<8xi32>\n" + STORE)
    assert undefined[1].tolist() == [False] * 5 + [True] * 3


def test_deselected_elements_are_not_part_of_the_result():
    undefined, r = run("%y = select %mask, %x, %lane : tile<8xi1>, tile<8xi32>\n" + STORE)
    assert undefined == {} and r.tolist() == [1, 2, 3, 4, 5, 5, 6, 7]


def test_integer_products_with_terms_that_may_overflow():
    """Of the first sum the whole is in range and its first half is not."""
    body = """%f = constant <i8: [[127, -127], [1, 1]]> : tile<2x2xi8>
    %g = constant <i8: [[127, 1], [127, 1]]> : tile<2x2xi8>
    %h = constant <i32: [[2147483647, 5], [2147483393, 2147483646]]> : tile<2x2xi32>
    %m = mmai %f, %g, %h signed signed : tile<2x2xi8>, tile<2x2xi8>, tile<2x2xi32>
    %n = reshape %m : tile<2x2xi32> -> tile<4xi32>
    %y = cat %n, %n dim = 0 : tile<4xi32>, tile<4xi32> -> tile<8xi32>
    """
    undefined, r = run(body + STORE)
    assert undefined[1].tolist() == [True, False, False, True] * 2
    assert r[[1, 2, 5, 6]].tolist() == [5, 2147483647] * 2


def test_reductions_of_undefined_elements():
    body = """%sum = reduce %x dim=0 identities=[0 : i32] : tile<8xi32> -> tile<i32> (%p: tile<i32>, %q: tile<i32>) {
      %z = addi %p, %q : tile<i32>
      yield %z : tile<i32>
    }
    %s = store_ptr_tko weak %r, %sum : tile<ptr<i32>>, tile<i32> -> token
    """
    undefined, _ = run(body)
    assert undefined[1].tolist() == [True] + [False] * 7


@pytest.mark.parametrize(
    "text",
    [
        "divi %x, %none signed", "remi %x, %none unsigned", "shli %x, %far", "shri %x, %far signed",
        "addi %x, %most overflow<no_signed_wrap>", "subi %none, %x overflow<no_unsigned_wrap>",
        "muli %most, %most overflow<no_wrap>",
    ],
)  # fmt: skip
def test_operations_without_a_value(text):
    body = f"""%none = constant <i32: 0> : tile<8xi32>
    %far = constant <i32: 32> : tile<8xi32>
    %most = constant <i32: 2147483647> : tile<8xi32>
    %y = {text} : tile<8xi32>
    """
    assert run(body + STORE)[0][1].all()


def test_floats_that_do_not_fit():
    body = """%f = constant <f32: 3.0e9> : tile<8xf32>
    %y = ftoi %f signed : tile<8xf32> -> tile<8xi32>
    """
    assert run(body + STORE)[0][1].all()


def test_memory_that_was_never_written():
    body = """%m = alloca num_elem = 8, alignment = 16 : tile<ptr<i32>>
    %w = store_ptr_tko weak %m, %seven : tile<ptr<i32>>, tile<i32> -> token
    %m1 = reshape %m : tile<ptr<i32>> -> tile<1xptr<i32>>
    %m8 = broadcast %m1 : tile<1xptr<i32>> -> tile<8xptr<i32>>
    %ms = offset %m8, %lane : tile<8xptr<i32>>, tile<8xi32> -> tile<8xptr<i32>>
    %y, %l = load_ptr_tko weak %ms token=%w : tile<8xptr<i32>> -> tile<8xi32>, token
    """
    undefined, r = run(LAST + body + STORE)
    assert undefined[1].tolist() == [False] + [True] * 7 and r[0] == 7


def test_arguments_are_as_one_run_leaves_them():
    """Further runs start from the initial contents, and leave no changes behind."""
    body = """%was, %k = atomic_rmw_tko relaxed device %a, add, %seven : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
    print_tko "%d\\0A", %was : tile<i32> -> token
    """
    a, r, output = np.arange(1, 9, dtype=np.int32), np.zeros(8, np.int32), io.StringIO()
    text = HEAD + LAST + body + "%y = addi %x, %lane : tile<8xi32>\n" + STORE + TAIL
    undefined = interpret(text, "k", 1, [a, r], output=output, memory=Memory())
    assert a.tolist() == [8, *range(2, 9)]
    assert output.getvalue() == "1\n" and undefined[1].sum() == 3
    assert r[5:].view(np.uint32).tolist() == [0xCDCDCDCD + lane for lane in (5, 6, 7)]


USES = {
    "a condition": """%p = cmpi less_than %u, %zero, signed : tile<i32> -> tile<i1>
        if %p {
          %w = store_ptr_tko weak %r, %zero : tile<ptr<i32>>, tile<i32> -> token
        }
    """,
    "a bound": "for %i in (%zero to %v, step %seven) : tile<i32> {\n}\n",
    "an index": "%b = andi %u, %seven : tile<i32>\n%g = extract %x[%b] : tile<8xi32> -> tile<1xi32>\n",
    "an address": """%b = andi %u, %seven : tile<i32>
        %q = offset %a, %b : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
        %g, %h = load_ptr_tko weak %q : tile<ptr<i32>> -> tile<i32>, token
    """,
    "an address or a size": """%b = andi %u, %seven : tile<i32>
        %g = make_tensor_view %a, shape = [%b], strides = [1] : tile<i32> -> tensor_view<?xi32, strides=[1]>
    """,
}


@pytest.mark.parametrize("use", USES)
def test_addresses_and_conditions_must_be_defined(use):
    bound = "%v = andi %u, %seven : tile<i32>\n"
    with pytest.raises(InterpreterError, match=f"uses an undefined value as {use}"):
        run(SCALAR + bound + USES[use])


def test_a_mask_must_be_defined():
    body = """%m = cmpi less_than %x, %five, signed : tile<8xi32> -> tile<8xi1>
    %s = store_ptr_tko weak %rs, %lane, %m : tile<8xptr<i32>>, tile<8xi32>, tile<8xi1> -> token
    """
    with pytest.raises(InterpreterError, match="uses an undefined value as an address"):
        run(body)


def test_an_assertion_of_an_undefined_value():
    body = '%p = cmpi less_than %u, %zero, signed : tile<i32> -> tile<i1>\nassert %p, "negative" : tile<i1>\n'
    with pytest.raises(InterpreterError, match="uses an undefined value as a condition"):
        run(SCALAR + body)


def test_undefined_elements_differ_from_each_other():
    """Exclusive-ors of pairs are as undefined as their operands, except of one with itself."""
    body = """%six = constant <i32: 6> : tile<i32>
    %d = extract %x[%six] : tile<8xi32> -> tile<1xi32>
    %o = xori %e, %d : tile<1xi32>
    %n = xori %e, %e : tile<1xi32>
    %ob = broadcast %o : tile<1xi32> -> tile<8xi32>
    %nb = broadcast %n : tile<1xi32> -> tile<8xi32>
    %y = select %mask, %ob, %nb : tile<8xi1>, tile<8xi32>
    """
    undefined, r = run(LAST + body + STORE)
    assert undefined[1].tolist() == [True] * 5 + [False] * 3 and r[5:].tolist() == [0] * 3


def test_arguments_without_elements_or_dimensions():
    text = HEAD.replace("%r: tile<ptr<i32>>", "%r: tile<ptr<i32>>, %empty: tile<ptr<f64>>, %single: tile<ptr<i16>>")
    r = np.zeros(8, np.int32)
    arguments = [np.arange(8, dtype=np.int32), r, np.zeros((0, 3)), np.array(7, np.int16)]
    undefined = interpret(text + "%y = addi %x, %lane : tile<8xi32>\n" + STORE + TAIL, "k", 1, arguments)
    assert list(undefined) == [1] and undefined[1].sum() == 3


def test_results_that_show_wrapping_only_are_undefined():
    """The sum of two of the greatest numbers is -2 on machines, which no bytes that stand in for it happen to be."""
    body = """%large = constant <i32: 2147483647> : tile<8xi32>
    %sum = addi %large, %large overflow<no_signed_wrap> : tile<8xi32>
    %limit = constant <i32: -2> : tile<8xi32>
    %other = constant <i32: -3> : tile<8xi32>
    %is = cmpi equal %sum, %limit, signed : tile<8xi32> -> tile<8xi1>
    %y = select %is, %other, %lane : tile<8xi1>, tile<8xi32>
    """
    undefined, _ = run(body + STORE)
    assert undefined[1].all()


@pytest.mark.parametrize("scales, expected", [("[[1.0], [-1.0]]", [False] * 4 + [True] * 4), ("[[1.0], [-0.0]]", None)])
def test_products_with_a_negative_scale(scales, expected):
    """`ue4m3` has no sign: a row with a negative scale is undefined."""
    undefined, r = run(
        f"""%p = constant <f4E2M1FN: 1.0> : tile<2x16xf4E2M1FN>
    %q = constant <f4E2M1FN: 1.0> : tile<16x4xf4E2M1FN>
    %c = constant <f32: 0.0> : tile<2x4xf32>
    %v = constant <f8E4M3FN: {scales}> : tile<2x1xf8E4M3FN>
    %w = constant <f8E4M3FN: 1.0> : tile<1x4xf8E4M3FN>
    %d = mmaf_scaled %p, %q, %c, %v, %w : tile<2x16xf4E2M1FN>, tile<16x4xf4E2M1FN>, tile<2x4xf32>,"""
        """ tile<2x1xf8E4M3FN>, tile<1x4xf8E4M3FN>
    %i = bitcast %d : tile<2x4xf32> -> tile<2x4xi32>
    %y = reshape %i : tile<2x4xi32> -> tile<8xi32>
"""
        + STORE
    )
    assert r[:4].view(np.float32).tolist() == [16.0] * 4
    assert (undefined[1].tolist() if undefined else None) == expected


@pytest.mark.parametrize("computed, undefined", [("addf %f, %f rounding<nearest_even>", True), (None, False)])
def test_the_payload_of_a_computed_nan_is_undefined(computed, undefined):
    text = f"%f = bitcast %x : tile<8xi32> -> tile<8xf32>\n%g = {computed or 'select %mask, %f, %f'} : "
    text += ("" if computed else "tile<8xi1>, ") + "tile<8xf32>\n"
    a, r = np.full(8, 0x7FC00001, np.int32), np.zeros(8, np.int32)
    text += "%y = bitcast %g : tile<8xf32> -> tile<8xi32>\n"
    places = interpret(HEAD + text + STORE + TAIL, "k", 1, [a, r])
    assert (1 in places and bool(places[1][0])) is undefined
    assert undefined or r[0] == a[0]
