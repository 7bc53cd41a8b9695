"""Shapes, views, memory, reductions, products, atomics, control flow and debugging operations."""

import io

import numpy as np
import pytest

from tileiras.sim import InterpreterError, Memory, interpret


def grid_of(*shape, dtype=np.float32):
    return np.arange(np.prod(shape)).reshape(shape).astype(dtype)


def module(parameters, body):
    return f"cuda_tile.module @m {{\nentry @k({parameters}) {{\n{body}\nreturn\n}}\n}}\n"


# ---- shapes ----------------------------------------------------------------------------------------------------------


def test_permute_reorders_dimensions(evaluate):
    out = np.zeros((8, 2, 4), np.float32)
    a = grid_of(2, 4, 8)
    evaluate("%r = permute %a [2, 0, 1] : tile<2x4x8xf32> -> tile<8x2x4xf32>", ("f32", a), result=("f32", out))
    assert (out == a.transpose(2, 0, 1)).all()


def test_cat_and_extract(evaluate):
    a, b = grid_of(2, 4), -grid_of(2, 4)
    out = np.zeros((1, 4), np.float32)
    body = """%c = cat %a, %b dim = 0 : tile<2x4xf32>, tile<2x4xf32> -> tile<4x4xf32>
              %three = constant <i32: 3> : tile<i32>
              %r = extract %c[%three, %zero] : tile<4x4xf32> -> tile<1x4xf32>"""
    evaluate(body, ("f32", a), ("f32", b), result=("f32", out))
    assert (out == b[1:]).all()


def test_extract_outside_is_an_error(evaluate):
    body = "%i = constant <i32: 4> : tile<i32>\n%r = extract %a[%i] : tile<8xf32> -> tile<2xf32>"
    with pytest.raises(InterpreterError, match=r"'cuda_tile.extract' op slice 4 along dimension 0 does not exist"):
        evaluate(body, ("f32", grid_of(8)), result=("f32", np.zeros(2, np.float32)))


def test_iota_reshape_broadcast(evaluate):
    out = np.zeros((4, 2), np.int32)
    body = """%i = iota : tile<4xi32>
              %c = reshape %i : tile<4xi32> -> tile<4x1xi32>
              %r = broadcast %c : tile<4x1xi32> -> tile<4x2xi32>"""
    evaluate(body, result=("i32", out))
    assert out.tolist() == [[0, 0], [1, 1], [2, 2], [3, 3]]


# ---- views -----------------------------------------------------------------------------------------------------------

TRANSPOSED = module(
    "%p: tile<ptr<f32>>, %q: tile<ptr<f32>>",
    """
    %t = make_tensor_view %p, shape = [6, 4], strides = [4, 1] : tensor_view<6x4xf32, strides=[4,1]>
    %v = make_partition_view %t
        : partition_view<tile=(4x2), padding_value = neg_inf, tensor_view<6x4xf32, strides=[4,1]>, dim_map=[1, 0]>
    %z = constant <i32: 0> : tile<i32>
    %two = constant <i32: 2> : tile<i32>
    %x, %k = load_view_tko weak %v[%z, %two]
        : partition_view<tile=(4x2), padding_value = neg_inf, tensor_view<6x4xf32, strides=[4,1]>, dim_map=[1, 0]>,
          tile<i32> -> tile<4x2xf32>, token
    %ot = make_tensor_view %q, shape = [4, 2], strides = [2, 1] : tensor_view<4x2xf32, strides=[2,1]>
    %ov = make_partition_view %ot : partition_view<tile=(4x2), tensor_view<4x2xf32, strides=[2,1]>>
    %s = store_view_tko weak %x, %ov[%z, %z]
        : tile<4x2xf32>, partition_view<tile=(4x2), tensor_view<4x2xf32, strides=[2,1]>>, tile<i32> -> token
    """,
)


def test_dimension_map_turns_tiles_around():
    a, out = grid_of(6, 4), np.zeros((4, 2), np.float32)
    interpret(TRANSPOSED, "k", 1, [a, out])
    assert (out == a[4:6].T).all()


def test_tile_outside_of_the_index_space_is_an_error():
    text = TRANSPOSED.replace("%two = constant <i32: 2>", "%two = constant <i32: 3>")
    message = r"index 3 along dimension 1 is outside of the view's index space \[1, 3\]"
    with pytest.raises(InterpreterError, match=message):
        interpret(text, "k", 1, [grid_of(6, 4), np.zeros((4, 2), np.float32)])


STRIDED = module(
    "%p: tile<ptr<i32>>, %q: tile<ptr<i32>>, %i: tile<i32>",
    """
    %t = make_tensor_view %p, shape = [16], strides = [1] : tensor_view<16xi32, strides=[1]>
    %v = make_strided_view %t
        : strided_view<tile=(2), traversal_strides=[3], padding_value = zero, tensor_view<16xi32, strides=[1]>>
    %x, %k = load_view_tko weak %v[%i]
        : strided_view<tile=(2), traversal_strides=[3], padding_value = zero, tensor_view<16xi32, strides=[1]>>,
          tile<i32> -> tile<2xi32>, token
    %ot = make_tensor_view %q, shape = [2], strides = [1] : tensor_view<2xi32, strides=[1]>
    %ov = make_partition_view %ot : partition_view<tile=(2), tensor_view<2xi32, strides=[1]>>
    %z = constant <i32: 0> : tile<i32>
    %s = store_view_tko weak %x, %ov[%z] : tile<2xi32>, partition_view<tile=(2), tensor_view<2xi32, strides=[1]>>,
        tile<i32> -> token
    """,
)


@pytest.mark.parametrize(("index", "expected"), [(0, [1, 2]), (2, [7, 8]), (5, [16, 0])])
def test_strided_view_skips_elements(index, expected):
    out = np.zeros(2, np.int32)
    interpret(STRIDED, "k", 1, [np.arange(1, 17, dtype=np.int32), out, index])
    assert out.tolist() == expected


def test_gather_view_picks_rows():
    text = module(
        "%p: tile<ptr<f32>>, %q: tile<ptr<f32>>",
        """
        %t = make_tensor_view %p, shape = [8, 4], strides = [4, 1] : tensor_view<8x4xf32, strides=[4,1]>
        %v = make_gather_scatter_view %t
            : gather_scatter_view<tile=(4x2), padding_value = zero, tensor_view<8x4xf32, strides=[4,1]>, sparse_dim=0>
        %rows = constant <i32: [7, 0, 9, 3]> : tile<4xi32>
        %one = constant <i32: 1> : tile<i32>
        %x, %k = load_view_tko weak %v[%rows, %one]
            : gather_scatter_view<tile=(4x2), padding_value = zero, tensor_view<8x4xf32, strides=[4,1]>, sparse_dim=0>,
              tile<4xi32>, tile<i32> -> tile<4x2xf32>, token
        %ot = make_tensor_view %q, shape = [4, 2], strides = [2, 1] : tensor_view<4x2xf32, strides=[2,1]>
        %ov = make_partition_view %ot : partition_view<tile=(4x2), tensor_view<4x2xf32, strides=[2,1]>>
        %z = constant <i32: 0> : tile<i32>
        %s = store_view_tko weak %x, %ov[%z, %z]
            : tile<4x2xf32>, partition_view<tile=(4x2), tensor_view<4x2xf32, strides=[2,1]>>, tile<i32> -> token
        """,
    )
    a, out = grid_of(8, 4) + 1, np.zeros((4, 2), np.float32)
    interpret(text, "k", 1, [a, out])
    # The index along the other dimension counts elements, as cuTile writes it.
    assert (out == np.stack([a[7, 1:3], a[0, 1:3], [0, 0], a[3, 1:3]])).all()


# ---- pointers --------------------------------------------------------------------------------------------------------

MASKED = module(
    "%p: tile<ptr<f32>>, %n: tile<i32>",
    """
    %b = reshape %p : tile<ptr<f32>> -> tile<1xptr<f32>>
    %c = broadcast %b : tile<1xptr<f32>> -> tile<8xptr<f32>>
    %i = iota : tile<8xi32>
    %ps = offset %c, %i : tile<8xptr<f32>>, tile<8xi32> -> tile<8xptr<f32>>
    %n1 = reshape %n : tile<i32> -> tile<1xi32>
    %n8 = broadcast %n1 : tile<1xi32> -> tile<8xi32>
    %m = cmpi less_than %i, %n8, signed : tile<8xi32> -> tile<8xi1>
    %x, %t = load_ptr_tko weak %ps, %m : tile<8xptr<f32>>, tile<8xi1> -> tile<8xf32>, token
    %y = addf %x, %x : tile<8xf32>
    %s = store_ptr_tko weak %ps, %y, %m token = %t : tile<8xptr<f32>>, tile<8xf32>, tile<8xi1> -> token
    """,
)


def test_mask_keeps_accesses_inside():
    a = grid_of(5)
    interpret(MASKED, "k", 1, [a, 5])
    assert a.tolist() == [0, 2, 4, 6, 8]


def test_access_outside_names_operation_line_and_distance():
    with pytest.raises(InterpreterError) as caught:
        interpret(MASKED, "k", 1, [grid_of(5), 6])
    text = str(caught.value)
    assert "'cuda_tile.load_ptr_tko' op address" in text
    assert "4 bytes past the end of argument 0 (20 bytes)" in text
    assert "%x, %t = load_ptr_tko" in text and "<string>:11:" in text
    assert "in tile block (0, 0, 0)" in text


def test_views_of_one_array_alias():
    base = grid_of(12)
    text = module(
        "%p: tile<ptr<f32>>, %q: tile<ptr<f32>>",
        """
        %one = constant <f32: 42.0> : tile<f32>
        %t = store_ptr_tko weak %p, %one : tile<ptr<f32>>, tile<f32> -> token
        %x, %u = load_ptr_tko weak %q token = %t : tile<ptr<f32>> -> tile<f32>, token
        %i = constant <i32: 1> : tile<i32>
        %n = offset %q, %i : tile<ptr<f32>>, tile<i32> -> tile<ptr<f32>>
        %s = store_ptr_tko weak %n, %x : tile<ptr<f32>>, tile<f32> -> token
        """,
    )
    interpret(text, "k", 1, [base[3:], base[3:8]])
    assert base[3:5].tolist() == [42, 42]


def test_table_of_pointers():
    memory = Memory()
    rows = [np.full(2, 3 + i, np.float32) for i in range(2)]
    table = np.array([memory.allocate(row) for row in rows], np.int64)
    out = np.zeros(1, np.float32)
    text = module(
        "%p: tile<ptr<i64>>, %q: tile<ptr<f32>>, %direct: tile<ptr<f32>>",
        """
        %i = constant <i32: 1> : tile<i32>
        %e = offset %p, %i : tile<ptr<i64>>, tile<i32> -> tile<ptr<i64>>
        %a, %t = load_ptr_tko weak %e : tile<ptr<i64>> -> tile<i64>, token
        %row = int_to_ptr %a : tile<i64> -> tile<ptr<f32>>
        %x, %u = load_ptr_tko weak %row : tile<ptr<f32>> -> tile<f32>, token
        %y, %v = load_ptr_tko weak %direct : tile<ptr<f32>> -> tile<f32>, token
        %z = addf %x, %y : tile<f32>
        %s = store_ptr_tko weak %q, %z : tile<ptr<f32>>, tile<f32> -> token
        """,
    )
    interpret(text, "k", 1, [table, out, int(table[0])])
    assert out[0] == 7


def test_globals_are_initialised_and_mutable():
    text = """cuda_tile.module @m {
      global @counter <i32: [5]> : tile<1xi32>
      entry @k(%q: tile<ptr<i32>>) {
        %p = get_global @counter : tile<ptr<i32>>
        %one = constant <i32: 1> : tile<i32>
        %old, %t = atomic_rmw_tko relaxed device %p, add, %one : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
        %s = store_ptr_tko weak %q, %old token = %t : tile<ptr<i32>>, tile<i32> -> token
        return
      }
    }
    """
    out = np.zeros(1, np.int32)
    interpret(text, "k", (2, 2), [out])
    assert out[0] == 8


# ---- reductions and products -----------------------------------------------------------------------------------------

ARGMAX = """
    %i = iota : tile<8xi32>
    %best, %r0 = reduce %a, %i dim=0 identities=[0xFF800000 : f32, -1 : i32]
        : tile<8xf32>, tile<8xi32> -> tile<f32>, tile<i32>
    (%x: tile<f32>, %y: tile<f32>, %xi: tile<i32>, %yi: tile<i32>) {
      %c = cmpf greater_than ordered %y, %x : tile<f32> -> tile<i1>
      %v = select %c, %y, %x : tile<i1>, tile<f32>
      %vi = select %c, %yi, %xi : tile<i1>, tile<i32>
      yield %v, %vi : tile<f32>, tile<i32>
    }
    %r = reshape %r0 : tile<i32> -> tile<1xi32>
"""


def test_reduce_with_two_operands(evaluate):
    out = np.zeros(1, np.int32)
    evaluate(ARGMAX, ("f32", np.array([3, 9, -1, 9, 2, 4, 5, 8], np.float32)), result=("i32", out))
    assert out[0] == 1


@pytest.mark.parametrize("axis", [0, 1])
def test_reduce_removes_a_dimension(evaluate, axis):
    a = grid_of(4, 8, dtype=np.int32)
    size = a.shape[1 - axis]
    out = np.zeros(size, np.int32)
    body = f"""%r = reduce %a dim={axis} identities=[0 : i32] : tile<4x8xi32> -> tile<{size}xi32>
               (%x: tile<i32>, %y: tile<i32>) {{
                 %s = addi %x, %y : tile<i32>
                 yield %s : tile<i32>
               }}"""
    evaluate(body, ("i32", a), result=("i32", out))
    assert (out == a.sum(axis)).all()


@pytest.mark.parametrize(("reverse", "expected"), [("false", [1, 3, 6, 10]), ("true", [10, 9, 7, 4])])
def test_scan_is_inclusive(evaluate, reverse, expected):
    out = np.zeros(4, np.int32)
    body = f"""%r = scan %a dim=0 reverse={reverse} identities=[0 : i32] : tile<4xi32> -> tile<4xi32>
               (%x: tile<i32>, %y: tile<i32>) {{
                 %s = addi %x, %y : tile<i32>
                 yield %s : tile<i32>
               }}"""
    evaluate(body, ("i32", np.array([1, 2, 3, 4], np.int32)), result=("i32", out))
    assert out.tolist() == expected


def test_scan_keeps_a_nan_that_comes_first(evaluate):
    """-inf is no identity for it, and is not read; the number that follows wins."""
    out = np.zeros(4, np.float32)
    body = """%r = scan %a dim=0 reverse=false identities=[0xFF800000 : f32] : tile<4xf32> -> tile<4xf32>
               (%x: tile<f32>, %y: tile<f32>) {
                 %s = maxf %x, %y : tile<f32>
                 yield %s : tile<f32>
               }"""
    evaluate(body, ("f32", np.array([np.nan, np.nan, 1, np.nan], np.float32)), result=("f32", out))
    assert np.array_equal(out, [np.nan, np.nan, 1, 1], equal_nan=True)


def test_matrix_product_rounds_once(evaluate):
    generator = np.random.default_rng(2)
    a, b = (generator.standard_normal(shape).astype(np.float16) for shape in ((2, 4, 8), (2, 8, 4)))
    c, out = generator.standard_normal((2, 4, 4)).astype(np.float32), np.zeros((2, 4, 4), np.float32)
    evaluate("%r = mmaf %a, %b, %c : tile<2x4x8xf16>, tile<2x8x4xf16>, tile<2x4x4xf32>", ("f16", a), ("f16", b),
             ("f32", c), result=("f32", out))  # fmt: skip
    assert (out == (a.astype(np.float64) @ b.astype(np.float64) + c).astype(np.float32)).all()


def test_integer_product_reads_each_side_in_its_signedness(evaluate):
    a, b = np.full((2, 2), -1, np.int8), np.full((2, 2), -1, np.int8)
    out = np.zeros((2, 2), np.int32)
    body = "%r = mmai %a, %b, %c unsigned signed : tile<2x2xi8>, tile<2x2xi8>, tile<2x2xi32>"
    evaluate(body, ("i8", a), ("i8", b), ("i32", np.zeros((2, 2), np.int32)), result=("i32", out))
    assert (out == -510).all()


# ---- atomics ---------------------------------------------------------------------------------------------------------


def test_atomic_addition_counts_every_element():
    text = module(
        "%p: tile<ptr<f32>>",
        """
        %b = reshape %p : tile<ptr<f32>> -> tile<1xptr<f32>>
        %c = broadcast %b : tile<1xptr<f32>> -> tile<4xptr<f32>>
        %i = constant <i32: [0, 1, 0, 0]> : tile<4xi32>
        %ps = offset %c, %i : tile<4xptr<f32>>, tile<4xi32> -> tile<4xptr<f32>>
        %v = constant <f32: [1.0, 2.0, 4.0, 8.0]> : tile<4xf32>
        %m = constant <i1: [1, 1, 1, 0]> : tile<4xi1>
        %o, %t = atomic_rmw_tko relaxed device %ps, addf, %v, %m
            : tile<4xptr<f32>>, tile<4xf32>, tile<4xi1> -> tile<4xf32>, token
        """,
    )
    a = np.zeros(2, np.float32)
    interpret(text, "k", 3, [a])
    assert a.tolist() == [15, 6]


def test_compare_and_swap_compares_bits():
    text = module(
        "%p: tile<ptr<f32>>",
        """
        %c = constant <f32: 0.0> : tile<f32>
        %v = constant <f32: 7.0> : tile<f32>
        %o, %t = atomic_cas_tko relaxed device %p, %c, %v : tile<ptr<f32>>, tile<f32> -> tile<f32>, token
        """,
    )
    for before, after in ((0.0, 7.0), (-0.0, -0.0)):
        a = np.array([before], np.float32)
        interpret(text, "k", 1, [a])
        assert a[0] == after and np.signbit(a[0]) == np.signbit(np.float32(after))


# ---- control flow and debugging --------------------------------------------------------------------------------------

COLLATZ = """
    %n0 = reshape %a : tile<1xi32> -> tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %two = constant <i32: 2> : tile<i32>
    %three = constant <i32: 3> : tile<i32>
    %steps = loop iter_values(%n = %n0, %s = %zero) : tile<i32>, tile<i32> -> tile<i32> {
      %done = cmpi equal %n, %one, signed : tile<i32> -> tile<i1>
      if %done {
        break %s : tile<i32>
      }
      %odd = andi %n, %one : tile<i32>
      %is_odd = cmpi equal %odd, %one, signed : tile<i32> -> tile<i1>
      %next = if %is_odd -> (tile<i32>) {
        %m = muli %n, %three : tile<i32>
        %p = addi %m, %one : tile<i32>
        yield %p : tile<i32>
      } else {
        %h = divi %n, %two signed : tile<i32>
        yield %h : tile<i32>
      }
      %t = addi %s, %one : tile<i32>
      continue %next, %t : tile<i32>, tile<i32>
    }
    %r = reshape %steps : tile<i32> -> tile<1xi32>
"""


def test_loop_with_break_inside_if(evaluate):
    out = np.zeros(1, np.int32)
    evaluate(COLLATZ, ("i32", np.array([27], np.int32)), result=("i32", out))
    assert out[0] == 111


def test_for_carries_values(evaluate):
    out = np.zeros(1, np.int32)
    body = """%n = constant <i32: 10> : tile<i32>
              %by = constant <i32: 3> : tile<i32>
              %sum = for %i in (%zero to %n, step %by) : tile<i32> iter_values(%s = %zero) -> (tile<i32>) {
                %t = addi %s, %i : tile<i32>
                continue %t : tile<i32>
              }
              %r = reshape %sum : tile<i32> -> tile<1xi32>"""
    evaluate(body, result=("i32", out))
    assert out[0] == 0 + 3 + 6 + 9


def test_broken_assumption_is_an_error():
    text = module("%p: tile<ptr<f32>>", "%q = assume div_by<16>, %p : tile<ptr<f32>>")
    interpret(text, "k", 1, [grid_of(8)[4:]])
    with pytest.raises(InterpreterError, match="div_by<16>.*does not hold"):
        interpret(text, "k", 1, [grid_of(8)[1:]])
    text = module("%n: tile<i32>", "%q = assume bounded<0, 7>, %n : tile<i32>")
    interpret(text, "k", 1, [7])
    with pytest.raises(InterpreterError, match="the value has element 8"):
        interpret(text, "k", 1, [8])


def test_the_stride_of_a_single_element_may_be_any():
    """cuTile Python assumes alignment of the strides of dimensions of one element as well."""
    text = module("%p: tile<ptr<f32>>, %n: tile<i32>, %s: tile<i32>", """
        %a = assume div_by<4>, %s : tile<i32>
        %b = assume bounded<0, ?>, %a : tile<i32>
        %v = make_tensor_view %p, shape = [%n, 4], strides = [%b, 1] : tile<i32> -> tensor_view<?x4xf32, strides=[?,1]>
        """)  # fmt: skip
    for size in (0, 1):
        interpret(text, "k", 1, [grid_of(8), size, 5])
    interpret(text, "k", 1, [grid_of(8), 2, 4])
    with pytest.raises(InterpreterError, match="div_by<4>.*does not hold: the value has element 5"):
        interpret(text, "k", 1, [grid_of(8), 2, 5])
    used = text.replace("%v = ", "%sum = addi %a, %n : tile<i32>\n%v = ")
    with pytest.raises(InterpreterError, match="div_by<4>.*does not hold"):
        interpret(used, "k", 1, [grid_of(8), 1, 5])


def test_failed_assertion_shows_message_and_index():
    text = module("", '%c = constant <i1: [1, 0]> : tile<2xi1>\nassert %c, "must hold" : tile<2xi1>')
    with pytest.raises(InterpreterError, match=r"assertion failed at \[1\]: must hold"):
        interpret(text, "k", 1, [])


def test_print_formats_every_element():
    body = r"""
        %a = constant <i32: [1, -2]> : tile<2xi32>
        %f = constant <f32: 1.5> : tile<f32>
        %t = print_tko "a=%d %u%% f=%6.2f\n", %a, %a, %f : tile<2xi32>, tile<2xi32>, tile<f32> -> token
    """
    text = module("", body)
    output = io.StringIO()
    interpret(text, "k", 1, [], output=output)
    assert output.getvalue() == "a=[1, -2] [1, 4294967294]% f=  1.50\n"


def test_arguments_must_fit():
    with pytest.raises(TypeError, match="the entry has 2 parameters, got 1"):
        interpret(MASKED, "k", 1, [grid_of(5)])
    with pytest.raises(TypeError, match="array of float64, the parameter points to f32"):
        interpret(MASKED, "k", 1, [grid_of(5, dtype=np.float64), 5])
    with pytest.raises(TypeError, match="does not fit i32"):
        interpret(MASKED, "k", 1, [grid_of(5), 1 << 33])
