"""Random programs: no two live buffers overlap, and the passes change no result."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from loopwright.ir.dims import int_max, size, size_symbols
from loopwright.ir.dtype import FLOAT32
from loopwright.ir.program.analysis import at_sizes
from loopwright.ir.program.interpret import interpret
from loopwright.ir.program.lifetimes import place_lifetimes
from loopwright.ir.program.nodes import (
    Access,
    Alias,
    Alloc,
    Call,
    Copy,
    Free,
    Operand,
    Program,
    Region,
)
from loopwright.ir.program.parser import parse_program
from loopwright.ir.program.pipeline import optimise
from loopwright.ir.program.planner import PAGE, PAGED_BYTES, lower_bound, plan_memory
from loopwright.ir.program.verify import verify


def _kernel(*operands):
    """Something of all operands, cut or repeated to the size of the last, which is written."""
    *sources, target = operands
    total = sum(np.resize(s.ravel(), target.size) for s in sources if s.size)
    target[...] = np.reshape(1 + 0.5 * total, target.shape) if np.ndim(total) else 1


def _in_place(call, read, written):
    return call.kernel.startswith("map")


N, M = size("n", 0, 1 << 20), size("m", 1, 1 << 20)
SIZES = [0, 1, 3, 16, 17, 100]
SYMBOLIC = [0, 3, 5000, N, 4 * N, N + 1, M, N * M, 16 * M * M, (N + M) // 3, int_max(N, M)]


@st.composite
def programs(draw, sizes=SIZES, shapes=((16,), (3,))):
    """Straight-line programs as the graph gives them: a buffer per value, results copied out."""
    values = [Region(f"x{n}", shape, FLOAT32) for n, shape in enumerate(shapes)]
    inputs = tuple(values)
    body, kernels = [], {}
    for n in range(draw(st.integers(0, 14))):
        operands = draw(st.lists(st.sampled_from(values), min_size=1, max_size=2))
        name = f"v{n}"
        kind = draw(st.sampled_from(["view", "map", "other", "other"]))
        source = operands[0]
        if kind == "view":
            region = Region(name, (1, *source.shape), FLOAT32)
            body.append(Alias(region, source.name))
        else:
            shape = source.shape if kind == "map" else (draw(st.sampled_from(sizes)),)
            region = Region(name, shape, FLOAT32)
            body.append(Alloc(region))
            label = f"{kind}.{n}"
            kernels[label] = _kernel
            ins = tuple(Operand(Access.IN, o.name) for o in operands)
            body.append(Call(label, (*ins, Operand(Access.OUT, name))))
        values.append(region)
    results = draw(st.lists(st.sampled_from(values), min_size=1, max_size=3))
    outputs = tuple(Region(f"y{i}", r.shape, FLOAT32) for i, r in enumerate(results))
    body += [Copy(r.name, y.name) for r, y in zip(results, outputs)]
    body += [Free(i.region.name) for i in body if isinstance(i, Alloc)]
    symbols = tuple(size_symbols(*(s for shape in shapes for s in shape)).values())
    return Program("f", inputs, outputs, (), tuple(body), sizes=symbols), kernels


@settings(max_examples=150)
@given(programs())
def test_passes_keep_the_results(drawn):
    program, kernels = drawn
    arrays = [np.arange(16, dtype=np.float32), np.array([3, -1, 2], np.float32)]
    verify(program)
    expected = interpret(program, arrays, kernels)
    after = verify(optimise(program, _in_place))
    assert parse_program(str(after)) == after
    assert optimise(after, _in_place) is after
    for got, wanted in zip(interpret(after, arrays, kernels), expected):
        np.testing.assert_array_equal(got, wanted)


@settings(max_examples=30)
@given(programs(SYMBOLIC, ((N,), (M, 2))), st.integers(0, 40), st.integers(1, 40))
def test_passes_keep_the_results_at_all_sizes(drawn, n, m):
    program, kernels = drawn
    arrays = [np.arange(n, dtype=np.float32), np.ones((m, 2), np.float32)]
    verify(program)
    expected = interpret(program, arrays, kernels)
    after = verify(optimise(program, _in_place))
    assert parse_program(str(after)) == after
    for values in ({"n": n, "m": m}, {"n": 0, "m": 1}, {"n": 3001, "m": 5003}):
        verify(at_sizes(after, values))
    for got, wanted in zip(interpret(after, arrays, kernels), expected):
        np.testing.assert_array_equal(got, wanted)


@st.composite
def lives(draw):
    """Programs that are allocations alone, with lives of every kind."""
    body, live = [], []
    for n in range(draw(st.integers(1, 30))):
        while live and draw(st.booleans()):
            body.append(Free(live.pop(draw(st.integers(0, len(live) - 1)))))
        body.append(Alloc(Region(f"b{n}", (draw(st.integers(0, 400)),), FLOAT32)))
        live.append(f"b{n}")
    return Program("f", (), (), (), (*body, *(Free(name) for name in live)))


@settings(max_examples=150)
@given(lives())
def test_live_buffers_never_overlap(program):
    planned = verify(plan_memory(program))
    live = {}
    for instr in planned.body:
        if isinstance(instr, Alloc):
            taken = set(range(instr.offset, instr.offset + instr.region.nbytes, 4))
            assert not any(taken & other for other in live.values())
            assert instr.offset % 64 == 0
            assert instr.offset + instr.region.nbytes <= planned.arena
            live[instr.region.name] = taken
        else:
            del live[instr.name]
    assert lower_bound(program) <= planned.arena <= 2 * lower_bound(program)
    assert plan_memory(planned) is planned


def test_the_plan_of_a_chain_needs_no_more_than_what_is_alive():
    sizes = [1000, 4000, 500, 8000, 100, 8000]
    body = [Alloc(Region("b0", (sizes[0],), FLOAT32))]
    for n in range(1, len(sizes)):
        body += [Alloc(Region(f"b{n}", (sizes[n],), FLOAT32)), Free(f"b{n - 1}")]
    program = Program("f", (), (), (), (*body, Free(f"b{len(sizes) - 1}")))
    assert lower_bound(program) == 4 * (8000 + 500) + 48
    assert plan_memory(program).arena <= lower_bound(program) + PAGE


def test_large_blocks_start_at_the_same_place_of_a_page():
    text = "\n".join(
        f"%b{n} = alloc int8[{PAGED_BYTES + n}]\n%s{n} = alloc int8[7]" for n in range(4)
    )
    text += "".join(f"\nfree %b{n}\nfree %s{n}" for n in range(4))
    planned = verify(plan_memory(parse_program(f"program @f() {{ {text} }}")))
    offsets = [i.offset for i in planned.body if isinstance(i, Alloc) and i.region.name[0] == "b"]
    assert [offset % PAGE for offset in offsets] == [0] * 4


def test_a_long_program_is_planned():
    count = 5000
    body = []
    for n in range(count):
        body.append(Alloc(Region(f"b{n}", (n % 50 + 1,), FLOAT32)))
        source = f"b{n - 1}" if n else "x"
        body.append(Call("f", (Operand(Access.IN, source), Operand(Access.OUT, f"b{n}"))))
    body.append(Copy(f"b{count - 1}", "y"))
    x, y = Region("x", (1,), FLOAT32), Region("y", ((count - 1) % 50 + 1,), FLOAT32)
    program = verify(optimise(place_lifetimes(Program("f", (x,), (y,), (), tuple(body)))))
    assert program.arena <= 2 * lower_bound(program)
