"""Loops over rows, in whole or in part, as operators on all rows."""

from __future__ import annotations

import numpy as np
import pytest
from graphs import assert_same_value, parse, random_args
from loopwright.ir.graph.evaluate import evaluate
from loopwright.ir.graph.nodes import For, Module
from loopwright.ir.graph.passes.lower_to_primitives import lower_to_primitives
from loopwright.ir.graph.passes.vectorise_loops import vectorise_loops
from loopwright.ir.graph.verify import verify
from loopwright.ir.graph.walk import all_bindings

HEAD = """fn (%x: Tensor[(7, 5), float32], %w: Tensor[(5, 3), float32], %v: Tensor[(3), float32],
             %m: Tensor[(7, 4, 5), float32], %k: Tensor[(7), int32])"""


def is_loop(value: object) -> bool:
    return isinstance(value, For)


def loops(module: Module) -> int:
    return sum(is_loop(b.value) for b in all_bindings(module.main))


def checked(text: str) -> int:
    """The number of loops that are left; the meaning is the same."""
    program = lower_to_primitives(verify(parse(text)))
    result = verify(vectorise_loops(program))
    assert vectorise_loops(result) is result
    args = random_args(program)
    assert_same_value(evaluate(result, *args), evaluate(program, *args))
    return loops(result)


@pytest.mark.parametrize(
    ("body", "shape"),
    [
        ("%r = tanh(take(%x, %i, axis=0));", (5,)),
        ("%r = add(take(%x, %i, axis=0), take(%m, %i, axis=0));", (4, 5)),
        ("%r = add(take(%m, %i, axis=0), take(%x, 2, axis=0));", (4, 5)),
        ("%r = nn.matmul(take(%x, %i, axis=0), %w);", (3,)),
        ("%r = nn.matmul(take(%m, %i, axis=0), %w);", (4, 3)),
        ("%r = nn.matmul(transpose(%w, axes=[1, 0]), take(%x, %i, axis=0));", (3,)),
        ("%r = nn.matmul(take(%m, %i, axis=0), take(%x, %i, axis=0));", (4,)),
        ("%r = nn.matmul(take(%x, %i, axis=0), take(%x, %i, axis=0));", ()),
        ("%r = nn.matmul(%x, transpose(take(%m, %i, axis=0), axes=[1, 0]));", (7, 4)),
        ("%r = sum(take(%m, %i, axis=0), axis=None);", ()),
        ("%r = max(take(%m, %i, axis=0), axis=[-1], keepdims=True);", (4, 1)),
        ("%r = nn.softmax(take(%m, %i, axis=0), axis=0);", (4, 5)),
        ("%r = nn.layer_norm(take(%m, %i, axis=0), %o, %o);", (4, 5)),
        ("%r = reshape(take(%m, %i, axis=0), newshape=[2, 10]);", (2, 10)),
        ("%r = expand_dims(take(%x, %i, axis=0), axis=1);", (5, 1)),
        ("%r = broadcast_to(take(%x, %i, axis=0), shape=[2, 5]);", (2, 5)),
        (
            "%r = strided_slice(take(%m, %i, axis=0), begin=[3, 0], end=[0, 4], strides=[-1, 2]);",
            (3, 2),
        ),
        ("%r = reverse(take(%m, %i, axis=0), axis=[1]);", (4, 5)),
        ("%r = concatenate(take(%x, %i, axis=0), %v, axis=0);", (8,)),
        ("%r = take(%w, take(%k, %i, axis=0), axis=1);", (5,)),
        ("%r = take(take(%m, %i, axis=0), %k, axis=0);", (7, 5)),
        ("%r = take(%x, subtract(6i64, %i), axis=0);", (5,)),
        ("%r = where(less(%i, 3i64), take(%x, %i, axis=0), %o);", (5,)),
        ("%r = cast(multiply(%i, 2i64), dtype=\"float32\");", ()),
        ("%r = 2f;", (3,)),
    ],
)  # fmt: skip
def test_operators_on_all_rows(body: str, shape: tuple[int, ...]) -> None:
    rows = f'full(shape={[7, *shape]}, fill_value=0, dtype="float32")'
    ones = '%o = full(shape=[5], fill_value=1, dtype="float32");'
    loop = "%u = index_update(%rows, %r, %i, axes=[0]); (%u,)"
    text = f"{HEAD} {{ {ones} %0 = {rows}; %1 = for (%i < 7i64; %rows = %0) {{ {body} {loop} }}; "
    text += "%1.0 }"
    left = checked(text)
    assert left == (1 if body == "%r = 2f;" else 0)


@pytest.mark.parametrize(
    "body",
    [
        "%r = take(%rows, 0, axis=0); %u = index_update(%rows, %r, %i, axes=[0]);",
        "%r = take(%x, %i, axis=0); %j = maximum(%i, 1i64); "
        "%u = index_update(%rows, %r, %j, axes=[0]);",
        "%r = cumsum(take(%x, %i, axis=0), axis=0); %u = index_update(%rows, %r, %i, axes=[0]);",
        "%r = take(%x, %i, axis=0); %t = index_update(%rows, %r, %i, axes=[0]); "
        "%s = take(%t, 0, axis=0); %u = index_update(%t, %s, %i, axes=[0]);",
    ],
)
def test_what_is_no_map_over_rows_stays(body: str) -> None:
    assert checked(f"{HEAD} {{ %1 = for (%i < 7i64; %rows = %x) {{ {body} (%u,) }}; %1.0 }}") == 1


def test_an_array_in_two_carries_stays() -> None:
    text = f"""{HEAD} {{
      %0 = for (%i < 7i64; %rows = %x, %other = %x) {{
        %r = sin(take(%x, %i, axis=0));
        %u = index_update(%rows, %r, %i, axes=[0]);
        (%u, %u)
      }};
      (%0.0, %0.1)
    }}"""
    assert checked(text) == 1


def test_rows_that_are_read_before_they_are_written() -> None:
    text = f"""{HEAD} {{
      %0 = for (%i < 7i64; %rows = %x) {{
        %r = sin(take(%rows, %i, axis=0));
        %u = index_update(%rows, %r, %i, axes=[0]);
        (%u,)
      }};
      %0.0
    }}"""
    assert checked(text) == 0


def test_loops_in_loops() -> None:
    text = f"""{HEAD} {{
      %0 = full(shape=[7, 4], fill_value=0, dtype="float32");
      %1 = for (%i < 7i64; %a = %0) {{
        %row = take(%m, %i, axis=0);
        %2 = full(shape=[4], fill_value=0, dtype="float32");
        %3 = for (%j < 4i64; %b = %2) {{
          %4 = sum(take(%row, %j, axis=0), axis=None);
          %5 = index_update(%b, %4, %j, axes=[0]);
          (%5,)
        }};
        %6 = index_update(%a, %3.0, %i, axes=[0]);
        (%6,)
      }};
      %1.0
    }}"""
    assert checked(text) == 0


def test_other_values_stay_in_the_loop() -> None:
    text = f"""{HEAD} {{
      %0 = for (%i < 7i64; %rows = %x, %s = 0f) {{
        %r = take(%rows, %i, axis=0);
        %u = index_update(%rows, sin(%r), %i, axes=[0]);
        %t = sin(add(%s, sum(%r, axis=None)));
        (%u, %t)
      }};
      (%0.0, %0.1)
    }}"""
    assert checked(text) == 1
    (loop,) = (b.value for b in all_bindings(vectorise_loops(parse(text)).main) if is_loop(b.value))
    assert len(loop.params) == 1


def test_maps_of_lw_map_leave_no_loop() -> None:
    import loopwright as lw

    f = lw.compile(lambda x: lw.map(lambda row: np.exp(row) / np.exp(row).sum(), x))
    x = np.random.default_rng(0).normal(size=(6, 9)).astype("float32")
    assert "for (" not in f.lower(x).as_text("kernels").partition("prim @")[0]
    np.testing.assert_allclose(f(x), np.exp(x) / np.exp(x).sum(1, keepdims=True), rtol=1e-5)


ELEMENTS = """fn (%a: Tensor[(8), float64], %b: Tensor[(8, 9), float64], %k: Tensor[(), int64],
                 %c: Tensor[(9), float64])"""


@pytest.mark.parametrize(
    "body",
    [
        # What a later iteration writes, other arrays, and the place that is written.
        "%r = take(%p, add(%i, 1i64), axis=0); %u = index_update(%p, %r, %i, axes=[0]);",
        "%r = take(%c, add(%i, 2i64), axis=0); %u = index_update(%p, %r, add(%i, 1i64), axes=[0]);",
        "%r = sin(take(%p, %i, axis=0)); %u = index_update(%p, %r, %i, axes=[0]);",
        # A place that none writes, or the last one only.
        "%r = take(%p, 7i64, axis=0); %u = index_update(%p, %r, %i, axes=[0]);",
        "%r = take(%p, 5i64, axis=0); %u = index_update(%p, %r, %i, axes=[0]);",
        # Backwards, and by steps.
        "%j = subtract(7i64, %i); %r = take(%p, %j, axis=0); "
        "%u = index_update(%p, exp(%r), %j, axes=[0]);",
        "%j = subtract(6i64, %i); %r = take(%p, subtract(%j, 1i64), axis=0); "
        "%u = index_update(%p, %r, %j, axes=[0]);",
        "%r = take(%c, floor_mod(add(%i, 4i64), 9i64), axis=0); "
        "%u = index_update(%p, %r, %i, axes=[0]);",
        # A branch.
        "%r = take(%c, %i, axis=0); %u = if (greater(%r, 0f64)) {"
        " index_update(%p, %r, %i, axes=[0]) } else { %p };",
        # What all iterations join, in one place of an array.
        "%r = take(%p, %k, axis=0); %s = add(%r, take(%c, %i, axis=0)); "
        "%u = index_update(%p, %s, %k, axes=[0]);",
    ],
)
def test_elements(body: str) -> None:
    assert checked(f"{ELEMENTS} {{ %1 = for (%i < 6i64; %p = %a) {{ {body} (%u,) }}; %1.0 }}") == 0


@pytest.mark.parametrize(
    "body",
    [
        # What an earlier iteration has written, or may have.
        "%r = take(%p, subtract(%i, 1i64), axis=0); %u = index_update(%p, %r, %i, axes=[0]);",
        "%r = take(%p, 3i64, axis=0); %u = index_update(%p, %r, %i, axes=[0]);",
        "%r = take(%p, %k, axis=0); %u = index_update(%p, %r, %i, axes=[0]);",
        "%j = subtract(6i64, %i); %r = take(%p, add(%j, 1i64), axis=0); "
        "%u = index_update(%p, %r, %j, axes=[0]);",
        # Places that leave the array, and the same one twice.
        "%r = take(%c, %i, axis=0); %u = index_update(%p, %r, add(%i, 3i64), axes=[0]);",
        "%r = take(%c, %i, axis=0); %u = index_update(%p, %r, floor_divide(%i, 2i64), axes=[0]);",
        # One place that is read elsewhere, too.
        "%r = take(%p, %k, axis=0); %s = add(%r, take(%p, 1i64, axis=0)); "
        "%u = index_update(%p, %s, %k, axes=[0]);",
    ],
)
def test_elements_that_depend_on_earlier_iterations(body: str) -> None:
    assert checked(f"{ELEMENTS} {{ %1 = for (%i < 6i64; %p = %a) {{ {body} (%u,) }}; %1.0 }}") == 1


@pytest.mark.parametrize(
    ("body", "left"),
    [
        ("%u = add(%s, take(%a, %i, axis=0));", 0),
        ("%u = subtract(add(%s, take(%a, %i, axis=0)), 2f64);", 0),
        ("%u = maximum(take(%a, %i, axis=0), %s);", 0),
        ("%r = take(%a, %i, axis=0); %u = where(less(%r, 0f64), add(%s, %r), %s);", 0),
        ("%r = take(%a, %i, axis=0); %u = if (less(%r, 0f64)) { add(%s, %r) } else { %s };", 0),
        ("%u = multiply(add(%s, take(%a, %i, axis=0)), 0.5f64);", 1),
        ("%u = add(%s, multiply(%s, take(%a, %i, axis=0)));", 1),
        ("%u = subtract(take(%a, %i, axis=0), %s);", 1),
    ],
)
def test_sums_of_terms(body: str, left: int) -> None:
    text = f"{ELEMENTS} {{ %1 = for (%i < 6i64; %s = 0.5f64) {{ {body} (%u,) }}; %1.0 }}"
    assert checked(text) == left


def test_a_sum_that_is_needed_on_the_way_stays() -> None:
    text = f"""{ELEMENTS} {{
      %1 = for (%i < 6i64; %s = 0.5f64, %p = %a) {{
        %t = add(%s, take(%a, %i, axis=0));
        %u = index_update(%p, %t, %i, axes=[0]);
        (%t, %u)
      }};
      (%1.0, %1.1)
    }}"""
    assert checked(text) == 1


@pytest.mark.parametrize("reduction", ["add", "mul", "min", "max"])
def test_rows_that_each_iteration_joins_to_an_array(reduction: str) -> None:
    text = f"""{HEAD} {{
      %0 = full(shape=[5], fill_value=0.5, dtype="float32");
      %1 = for (%i < 7i64; %g = %0) {{
        %2 = for (%j < 5i64; %h = %g) {{
          %3 = take(take(%x, %j, axis=1), %i, axis=0);
          %4 = exp(%3);
          (index_update(%h, %4, %j, axes=[0], reduction="{reduction}"),)
        }};
        (%2.0,)
      }};
      %1.0
    }}"""
    assert checked(text) == 0


def test_rows_times_numbers_are_a_product() -> None:
    text = f"""{HEAD} {{
      %0 = full(shape=[5], fill_value=0, dtype="float32");
      %1 = for (%i < 7i64; %g = %0) {{
        %2 = exp(cast(take(%k, %i, axis=0), dtype="float32"));
        %3 = for (%j < 5i64; %h = %g) {{
          %4 = take(take(%x, %j, axis=1), %i, axis=0);
          %5 = multiply(%4, %2);
          (index_update(%h, %5, %j, axes=[0], reduction="add"),)
        }};
        (%3.0,)
      }};
      %1.0
    }}"""
    assert checked(text) == 0
    result = vectorise_loops(lower_to_primitives(verify(parse(text))))
    assert "nn.matmul(" in str(result)
    assert "nn.matmul(" not in str(
        vectorise_loops(lower_to_primitives(parse(text.replace("multiply", "maximum"))))
    )


def test_a_product_of_matrices_by_elements_is_one_kernel() -> None:
    import loopwright as lw

    def product(a, b):
        c = np.zeros((a.shape[0], b.shape[1]))
        for i in range(a.shape[0]):
            for j in range(b.shape[1]):
                for k in range(a.shape[1]):
                    c[i, j] += a[i, k] * b[k, j]
        return c

    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(20, 30)), rng.normal(size=(30, 25))
    f = lw.compile(product)
    assert f.lower(a, b).as_text("program").count("call ") == 1
    np.testing.assert_allclose(f(a, b), a @ b, rtol=1e-12)
