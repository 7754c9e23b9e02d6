"""Calls of other libraries in compiled functions: on every level, in control flow, and failing."""

from __future__ import annotations

import ctypes
import traceback
from pathlib import Path

import loopwright as lw
import numpy as np
import pytest
from loopwright.codegen.program_from_graph import program_from_module
from loopwright.codegen.runtime import library_site
from loopwright.codegen.runtime.buffers import ArraySpec
from loopwright.codegen.runtime.status import raise_status
from loopwright.ir.errors import InternalError
from loopwright.ir.graph.evaluate import evaluate
from loopwright.ir.graph.parser import parse_module
from loopwright.ir.graph.printer import as_text
from loopwright.ir.program.analysis import instructions
from loopwright.ir.program.interpret import interpret
from loopwright.ir.program.nodes import Library
from loopwright.ir.program.parser import parse_program
from loopwright.ir.program.pipeline import optimise
from loopwright.ir.program.verify import verify

RNG = np.random.default_rng(5)
A = RNG.standard_normal((5, 5)) + 4 * np.eye(5)  # smaller ones need no library
B = RNG.standard_normal((5, 3))
SINGULAR = np.ones((5, 5))


def solve(a, b):
    return np.linalg.solve(a, b)


def solved_in_a_loop(a, b):
    return lw.fori_loop(0, 5, lambda i, x: np.linalg.solve(a + i * np.eye(5), x), b)


def solved_if_positive(a, b):
    return lw.cond(b.sum() > 0, lambda x: np.linalg.solve(a, x), lambda x: x * 2, b)


def test_texts_parse_back_and_mean_the_same():
    module = lw.compile(solve).trace(A, B).module
    text = as_text(module, spans=False)
    assert 'call_library(%a, %b, function="numpy.linalg.solve")' in text
    assert as_text(parse_module(text), spans=False) == text
    np.testing.assert_array_equal(evaluate(module, A, B), np.linalg.solve(A, B))
    program = optimise(program_from_module(module))
    assert parse_program(str(program)) == program
    assert 'library "numpy.linalg.solve"(@in %a, @in %b, @out %out)' in str(program)
    (found,) = interpret(program, [A, B], {})
    np.testing.assert_array_equal(found, np.linalg.solve(A, B))


def test_a_verifier_knows_the_types_of_results():
    text = str(program_from_module(lw.compile(solve).trace(A, B).module))
    wrong = text.replace("float64[5, 3]", "float64[3, 5]")
    with pytest.raises(InternalError, match="other results"):
        verify(parse_program(wrong))


def test_loops_call_libraries():
    wanted = B
    for i in range(5):
        wanted = np.linalg.solve(A + i * np.eye(5), wanted)
    np.testing.assert_allclose(lw.compile(solved_in_a_loop)(A, B), wanted, rtol=1e-12)


def test_branches_call_libraries_if_they_are_taken():
    f = lw.compile(solved_if_positive)
    np.testing.assert_array_equal(f(A, abs(B)), np.linalg.solve(A, abs(B)))
    np.testing.assert_array_equal(f(SINGULAR, -abs(B)), -2 * abs(B))
    with pytest.raises(np.linalg.LinAlgError):
        f(SINGULAR, abs(B))


def test_what_a_loop_repeats_is_called_once_and_not_if_the_loop_does_not_run():
    @lw.compile
    def f(a, b, n):
        return lw.fori_loop(0, n, lambda i, x: x + np.linalg.solve(a, b), b)

    calls = [i for i in instructions(f.lower(A, B, 3).built.parts.program) if type(i) is Library]
    assert len(calls) == 1
    np.testing.assert_allclose(f(A, B, np.int64(3)), B + 3 * np.linalg.solve(A, B), rtol=1e-12)
    np.testing.assert_array_equal(f(SINGULAR, B, np.int64(0)), B)
    with pytest.raises(np.linalg.LinAlgError):
        f(SINGULAR, B, np.int64(1))


@pytest.mark.parametrize("call", [solve, solved_in_a_loop])
def test_an_exception_is_raised_as_it_is_with_the_users_line(call):
    with pytest.raises(np.linalg.LinAlgError, match="Singular matrix") as error:
        lw.compile(call)(SINGULAR * 0, B)
    (note,) = error.value.__notes__
    line = f"test_library_calls.py:{call.__code__.co_firstlineno + 1}  np.linalg.solve("
    assert note.startswith("in compiled code: ") and line in note
    files = {Path(f.filename).name for f in traceback.extract_tb(error.value.__traceback__)}
    assert files == {"test_library_calls.py", "compiled_function.py"}  # the latter raises it


def test_saved_programs_call_libraries(tmp_path):
    lw.compile(solve).lower(A, B).save(tmp_path / "solve.lw")
    loaded = lw.load(tmp_path / "solve.lw")
    np.testing.assert_array_equal(loaded(A, B), np.linalg.solve(A, B))
    with pytest.raises(np.linalg.LinAlgError, match="Singular matrix"):
        loaded(SINGULAR, B)


def test_a_loop_over_matrices_is_one_call():
    stack = RNG.standard_normal((6, 5, 5)) + 4 * np.eye(5)

    @lw.compile
    def f(stack, b):
        return lw.map(lambda a: np.linalg.solve(a, b), stack)

    np.testing.assert_allclose(f(stack, B), np.linalg.solve(stack, B), rtol=1e-12)
    assert "for (" not in f.lower(stack, B).as_text("kernels")


def test_errors_of_types_name_the_operands():
    with pytest.raises(lw.LoopwrightTypeError) as error:
        lw.compile(np.linalg.inv)(B)
    assert error.value.message == "np.linalg.inv takes square matrices, not float64[5, 3]"
    with pytest.raises(lw.UnsupportedError, match="real or complex results, by its values"):
        lw.compile(np.linalg.eig)(A)


def test_a_profile_has_the_times_of_calls():
    profile = lw.compile(lambda a, b: np.linalg.solve(a * 2, b) + 1).profile(A, B)
    assert "function @numpy.linalg.solve at" in str(profile)


@pytest.mark.parametrize("call", [solve, solved_in_a_loop, solved_if_positive])
def test_debugging_steps_over_calls(call):
    comparison = lw.debug.compare(lw.compile(lambda a, b: np.exp(call(a, b))), A, abs(B))
    assert "no difference" in str(comparison)


def test_debugging_steps_over_complex_values():
    comparison = lw.debug.compare(lambda x: np.fft.ifft(np.fft.fft(x) * 2).real, B[:, 0].copy())
    assert "no difference" in str(comparison)


def test_a_function_that_is_called_may_call_compiled_ones():
    inner = lw.compile(lambda x: np.linalg.inv(x) + 1)

    @lw.extern(results=lambda x: x)
    def called(x):
        return outer(x[:, :0].sum() + np.eye(6)) if len(x) == 5 else inner(x)

    with pytest.raises(lw.LoopwrightTypeError, match=r"returned float64\[6, 6\]"):
        outer = lw.compile(lambda x: called(x) * 2)
        outer(A)
    np.testing.assert_allclose(outer(np.eye(6)), 2 * (np.eye(6) + 1))


def test_calls_by_ctypes_do_the_same():
    """For interpreters whose objects are laid out in another way."""

    def fails(*arrays):
        raise KeyError("mine")

    spec = ArraySpec((5, 5), np.dtype(np.float64))
    out = np.zeros((5, 5))
    pointers = (ctypes.c_size_t * 2)(A.ctypes.data, out.ctypes.data)
    operands = [(spec, False), (spec, True)]
    site = library_site.make_site(lambda a, b: np.multiply(a, 2, out=b), operands)
    assert library_site._portable(site.address, pointers) == 0
    np.testing.assert_array_equal(out, 2 * A)
    site = library_site.make_site(fails, operands)
    status = library_site._portable(site.address, pointers)
    with pytest.raises(KeyError, match="mine"):
        raise_status(status)
