"""Entries with control flow: branches, loops, swaps, status and signals."""

import signal
import subprocess
import sys
import textwrap
import threading
from dataclasses import dataclass

import numpy as np
import pytest
from loopwright.codegen.entry import entry_text
from loopwright.codegen.module_text import ModuleText
from loopwright.codegen.program import compile_program
from loopwright.codegen.target import Target
from loopwright.ir.dtype import BOOL, INT64, dtype_of
from loopwright.ir.program.nodes import (
    Access,
    Alloc,
    Call,
    Constant,
    Copy,
    For,
    Free,
    If,
    Invoke,
    Operand,
    Program,
    Region,
    Swap,
    While,
)


@dataclass(frozen=True)
class Written:
    """A kernel written by hand, on int64 scalars."""

    name: str
    text: str

    @property
    def code(self) -> ModuleText:
        return ModuleText.of(self.text)


def _kernel(name, lines, params=2):
    names = ", ".join([*(f"ptr %a{n}" for n in range(params)), "ptr %workspace"])
    return Written(name, f"define void @{name}({names}) {{\n{lines}\n  ret void\n}}\n")


X = "  %x = load i64, ptr %a0\n"
KERNELS = {
    "is_not_one": _kernel(
        "is_not_one",
        X + "  %t = icmp ne i64 %x, 1\n  %b = zext i1 %t to i8\n  store i8 %b, ptr %a1",
    ),
    "is_odd": _kernel(
        "is_odd", X + "  %t = trunc i64 %x to i8\n  %b = and i8 %t, 1\n  store i8 %b, ptr %a1"
    ),
    "half": _kernel("half", X + "  %y = ashr i64 %x, 1\n  store i64 %y, ptr %a1"),
    "triple": _kernel(
        "triple", X + "  %t = mul i64 %x, 3\n  %y = add i64 %t, 1\n  store i64 %y, ptr %a1"
    ),
    "next": _kernel("next", X + "  %y = add i64 %x, 1\n  store i64 %y, ptr %a1"),
    "previous": _kernel("previous", X + "  %y = sub i64 %x, 1\n  store i64 %y, ptr %a1"),
    "add": _kernel(
        "add", X + "  %z = load i64, ptr %a1\n  %y = add i64 %x, %z\n  store i64 %y, ptr %a2", 3
    ),
}


def _int(name):
    return Region(name, (), INT64)


def _alloc(name, number, registers=False, dtype=INT64):
    region = Region(name, (), dtype)
    return Alloc(region, None if registers else 64 * number, registers)


def _call(kernel, *names):
    *read, written = names
    operands = [Operand(Access.IN, n) for n in read]
    return Call(kernel, (*operands, Operand(Access.OUT, written)))


def _run(program, *args):
    compiled = compile_program(program, KERNELS, Target.host())
    return [int(r) for r in compiled.executable([np.int64(a).reshape(()) for a in args])]


def _collatz(registers):
    body = (
        _alloc("n", 0, registers),
        Copy("x", "n"),
        Copy("zero", "steps"),
        _alloc("on", 1, registers, BOOL),
        While(
            (_call("is_not_one", "n", "on"),),
            "on",
            (
                _alloc("odd", 2, registers, BOOL),
                _call("is_odd", "n", "odd"),
                _alloc("new", 3, registers),
                If("odd", (_call("triple", "n", "new"),), (_call("half", "n", "new"),)),
                Free("odd"),
                Copy("new", "n"),
                Free("new"),
                _alloc("more", 2, registers),
                _call("next", "steps", "more"),
                Copy("more", "steps"),
                Free("more"),
            ),
        ),
        Free("on"),
        Free("n"),
    )
    return Program("main", (_int("x"), _int("zero")), (_int("steps"),), (), body, 256)


@pytest.mark.parametrize("registers", [False, True])
def test_a_while_loop_with_a_branch(registers):
    assert _run(_collatz(registers), 27, 0) == [111]
    assert _run(_collatz(registers), 1, 0) == [0]


@pytest.mark.parametrize(
    ("value", "word"), [(np.int64(-7), 2**64 - 7), (np.float64(1), 1023 << 52)]
)
def test_numbers_that_are_constant_are_written_into_the_code(value, word):
    region = Region("seven", (), dtype_of(value.dtype))
    out = Region("out", (), region.dtype)
    forever = Region("on", (), BOOL)
    constants = (Constant(region, np.asarray(value)), Constant(forever))
    body = (Copy("seven", "out"), If("on", (Copy("seven", "out"),), ()))
    text = entry_text(Program("main", (), (out,), constants, body, 0), {})
    assert f"store i64 {word}, ptr" in text
    assert text.count(".kept = load") == 1  # of what has no value


@pytest.mark.parametrize(("extent", "count"), [(10, 10), ("n", 7), ("n", 0), ("n", -3)])
def test_a_for_loop_with_swapped_memory(extent, count):
    # Fibonacci numbers: two values change places in each iteration.
    body = (
        _alloc("a", 0),
        Copy("zero", "a"),
        _alloc("b", 1),
        _call("next", "zero", "b"),
        For(
            _int("i"),
            extent,
            (
                _alloc("c", 2),
                _call("add", "a", "b", "c"),
                Copy("c", "a"),
                Free("c"),
                Swap("a", "b"),
            ),
        ),
        Copy("a", "y"),
        Free("a"),
        Free("b"),
    )
    program = Program("main", (_int("zero"), _int("n")), (_int("y"),), (), body, 192)
    fibonacci = [0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55]
    assert _run(program, 0, count) == [fibonacci[max(count, 0)]]


def test_an_index_is_read_and_loops_nest():
    body = (
        Copy("zero", "y"),
        For(
            _int("i"),
            5,
            (
                For(
                    _int("j"),
                    "i",
                    (_alloc("t", 0), _call("add", "y", "j", "t"), Copy("t", "y"), Free("t")),
                ),
            ),
        ),
    )
    program = Program("main", (_int("zero"),), (_int("y"),), (), body, 64)
    assert _run(program, 0) == [sum(j for i in range(5) for j in range(i))]


def test_an_endless_loop_is_interrupted_and_the_process_goes_on():
    # In a process of its own: the handlers of signals belong to its main thread.
    source = textwrap.dedent(
        """
        import threading, time, signal, os, sys
        import numpy as np
        from test_entry import KERNELS, _alloc, _call, _collatz, _int, _run
        from loopwright.codegen.program import compile_program
        from loopwright.codegen.target import Target
        from loopwright.ir.dtype import BOOL
        from loopwright.ir.program.nodes import Copy, Free, Program, While
        head = (_alloc("on", 0, True, BOOL), _call("is_not_one", "x", "on"))
        body = (_alloc("t", 0), _call("next", "y", "t"), Copy("t", "y"), Free("t"))
        loop = (Copy("x", "y"), head[0], While(head[1:], "on", body), Free("on"))
        program = Program("main", (_int("x"),), (_int("y"),), (), loop, 64)
        call = compile_program(program, KERNELS, Target.host()).executable
        assert call([np.array(1)])[0] == 1
        sent, ticks = [], []
        def interrupt():
            for _ in range(20):
                time.sleep(0.01)
                ticks.append(time.monotonic())
            sent.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)
        for _ in range(2):
            thread = threading.Thread(target=interrupt)
            thread.start()
            try:
                call([np.array(2)])
            except KeyboardInterrupt:
                print(time.monotonic() - sent[-1])
            thread.join()
        assert len(ticks) == 40
        assert _run(_collatz(True), 27, 0) == [111]
        assert call([np.array(1)])[0] == 1
        """
    )
    done = subprocess.run(
        [sys.executable, "-c", source],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=__file__.rpartition("/")[0],
        check=False,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert done.returncode == 0, done.stderr
    times = [float(t) for t in done.stdout.split()]
    assert len(times) == 2 and max(times) < 0.2


def _sum_to(registers=False):
    """s(m) = m + s(m - 1), s(1) = 1."""
    body = (
        _alloc("on", 0, registers, BOOL),
        _call("is_not_one", "m", "on"),
        If(
            "on",
            (
                _alloc("p", 1, registers),
                _call("previous", "m", "p"),
                _alloc("t", 2, registers),
                Invoke("sum", (Operand(Access.IN, "p"), Operand(Access.OUT, "t"))),
                _call("add", "m", "t", "s"),
                Free("p"),
                Free("t"),
            ),
            (Copy("m", "s"),),
        ),
        Free("on"),
    )
    function = Program("sum", (_int("m"),), (_int("s"),), (), body, 0 if registers else 192)
    call = Invoke("sum", (Operand(Access.IN, "n"), Operand(Access.OUT, "y")))
    return Program("main", (_int("n"),), (_int("y"),), (), (call,), 0, functions=(function,))


@pytest.mark.parametrize("registers", [False, True])
def test_recursion(registers):
    program = _sum_to(registers)
    assert _run(program, 1) == [1]
    assert _run(program, 10_000) == [50_005_000]
    with pytest.raises(RecursionError, match="LOOPWRIGHT_STACK"):
        _run(program, 10**9)
    assert _run(program, 100) == [5050]


def test_recursion_on_threads_with_small_stacks():
    call = compile_program(_sum_to(), KERNELS, Target.host()).executable
    results = []

    def run():
        results.append(int(call([np.array(500)])[0]))
        try:
            call([np.array(10**9)])
        except RecursionError:
            results.append("too deep")

    before = threading.stack_size(256 * 1024)
    try:
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before)
    assert results == [125_250, "too deep"]


def test_the_memory_of_frames_ends(monkeypatch):
    monkeypatch.setenv("LOOPWRIGHT_STACK", "1")
    program = _sum_to()
    assert _run(program, 5000) == [12_502_500]
    with pytest.raises(RecursionError):
        _run(program, 6000)
