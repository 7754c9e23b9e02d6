"""Small slices of carried arrays are written in place."""

import loopwright as lw
import numpy as np
from loopwright.ir.graph.parser import parse_module
from loopwright.ir.graph.passes.update_carries import update_carries


def loop(body: str, result: str = "%1") -> str:
    return f"""
      def @main(%x: Tensor[(64), float32], %v: Tensor[(2), float32]) -> Tensor[(64), float32] {{
        %0 = for (%i < 9i64; %y = %x) {{ {body} ({result},) }};
        %0.0
      }}"""


def names(text: str) -> str:
    return str(update_carries(parse_module(text)))


def test_what_is_not_carried_or_is_large_stays() -> None:
    whole = "%1 = strided_set(%y, %x, begin=[0], strides=[1]);"
    module = parse_module(loop(whole))
    assert update_carries(module) is module
    other = "%2 = exp(%y); %1 = strided_set(%2, %v, begin=[0], strides=[1]);"
    module = parse_module(loop(other))
    assert update_carries(module) is module
    straight = """
      def @main(%x: Tensor[(64), float32], %v: Tensor[(2), float32]) -> Tensor[(64), float32] {
        strided_set(%x, %v, begin=[0], strides=[1])
      }"""
    module = parse_module(straight)
    assert update_carries(module) is module


def test_one_write_after_another() -> None:
    two = (
        "%2 = strided_set(%y, %v, begin=[0], strides=[1]);"
        "%1 = strided_set(%2, %v, begin=[3], strides=[5]);"
    )
    text = names(loop(two))
    assert text.count("index_update") == 2 and "strided_set" not in text
    assert "sizes=[2]" in text and "strides=[5]" in text


def test_a_loop_that_writes_at_fixed_places_copies_no_array() -> None:
    def f(x, v):
        def body(i, c):
            x[0] += v[i]
            x[2:5] = x[1:4]
            return c

        lw.fori_loop(0, v.shape[0], body, 0)

    x, v = np.zeros(400), np.arange(9.0)
    g = lw.compile(f)
    g(x, v)
    assert x[0] == 36 and not x[1:].any()
    program = g.lower(x, v).as_text("program")
    assert program.count("copy") == 1 and "update %x with %out in place" in program


def test_a_write_after_a_loop_copies_no_array() -> None:
    def f(x, v):
        def body(i, c):
            x[i] += v[i]
            return c

        lw.fori_loop(0, v.shape[0], body, 0)
        x[-1] = x[v.shape[0]]

    x, v = np.arange(400.0), np.ones(9)
    g = lw.compile(f)
    g(x, v)
    assert (x[:9] == np.arange(9) + 1).all() and x[-1] == 9
    program = g.lower(x, v).as_text("program")
    assert program.count("copy") == 1 and "alloc float64[400]" not in program
