"""The graph's language whole: inference, data types, functions as values, references."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import loopwright as lw
import numpy as np
import pytest
from graphs import assert_same_value, check_pass, random_args
from loopwright.ir.errors import InternalError, LoopwrightError
from loopwright.ir.graph import nodes
from loopwright.ir.graph.builder import BOOL_SCALAR
from loopwright.ir.graph.evaluate import Made, evaluate
from loopwright.ir.graph.passes.defunctionalise import defunctionalise
from loopwright.ir.graph.passes.eliminate_dead_code import eliminate_dead_code
from loopwright.ir.graph.passes.evaluate_partially import evaluate_partially
from loopwright.ir.graph.passes.fold_constants import fold_constants
from loopwright.ir.graph.passes.inline_calls import inline_calls
from loopwright.ir.graph.passes.lift_functions import lift_functions
from loopwright.ir.graph.passes.specialise_types import specialise_types
from loopwright.ir.graph.prelude import prelude
from loopwright.ir.graph.structural import structural_hash
from loopwright.ir.graph.verify import verify
from random_language import fault_of, is_same

FOLDER = Path(__file__).parent / "golden"


def message_of(error: LoopwrightError) -> str:
    """Returns an error's message, and the column of the text that it points at."""
    mark = next((note for note in error.notes if note.strip() == "^"), None)
    where = "" if mark is None or "column" in error.message else f"column {len(mark)}: "
    return f"{type(error).__name__}: {where}{error.message}"


def answers(name: str, answer: Callable[[str], list[str]]) -> str:
    """Returns the programs of a golden file, each with what ``answer`` gives below it."""
    lines = (FOLDER / name).read_text().splitlines()
    made: list[str] = []
    for line in lines:
        if not line.startswith("  "):
            made += [line, *(f"  {each}" for each in ([] if line[0] == "#" else answer(line)))]
    return "\n".join(made) + "\n"


def test_types_are_inferred(golden: Callable[[str, str], None]) -> None:
    golden(
        answers("inferred.txt", lambda text: [str(verify(lw.parse(text)).main.type)]),
        "inferred.txt",
    )


def test_ill_typed_programs_are_refused_where_they_are(golden: Callable[[str, str], None]) -> None:
    def refusal(text: str) -> list[str]:
        with pytest.raises(LoopwrightError) as caught:
            lw.parse(text)
        assert caught.value.span is not None and "^" in caught.value.notes[1]
        return [message_of(caught.value)]

    golden(answers("ill_typed.txt", refusal), "ill_typed.txt")


def test_texts_are_read(golden: Callable[[str, str], None]) -> None:
    """All that Relay's grammar has is read, and what prints is read as the same."""

    def printed(text: str) -> list[str]:
        weights = {"weights": np.zeros((2, 2), np.float32)}
        try:
            module = verify(lw.parse(text, constants=weights))
        except LoopwrightError as error:
            return [message_of(error)]
        again = lw.parse(str(module), constants=weights)
        assert str(again) == str(module) and structural_hash(again) == structural_hash(module)
        kept = {n: d for n, d in module.types.items() if f"type {n}" in text}
        names = {n: f for n, f in module.functions.items() if f"@{n}" not in prelude()}
        return str(nodes.Module(names, types=kept)).splitlines()

    golden(answers("read.txt", printed), "read.txt")


def test_operators_of_relays_own_texts() -> None:
    head = (
        "def @main(%x: Tensor[(1, 3, 8, 8), float32], %w: Tensor[(4, 3, 3, 3), float32], "
        "%b: Tensor[(4), float32], %d: Tensor[(10, 64), float32], %y: Tensor[(2, 1, 10), float32])"
    )
    relays = f"""#[version = "0.0.5"]
    {head} {{  // a small network
      %0 = nn.conv2d(%x, %w, padding=[1, 1], channels=4, kernel_size=[3, 3]) /* ty=Tensor */;
      %1 = nn.batch_norm(nn.bias_add(%0, %b), %b, %b, %b, %b, epsilon=1e-05f);
      %2 = nn.max_pool2d(nn.leaky_relu(%1.0, alpha=0.5f), pool_size=[2, 2], strides=[2, 2]);
      %3 = nn.dense(nn.batch_flatten(%2), %d, units=10);
      %4 = (%3, zeros(shape=[1, 10], dtype="float32"), ones_like(%3));
      (concatenate(%4, axis=1), nn.batch_matmul(copy(%y), %y), cast(%3, dtype="float64"))
    }}"""
    ours = f"""{head} {{
      %0 = nn.conv2d(%x, %w, padding=[1, 1, 1, 1]) + reshape(%b, newshape=[1, 4, 1, 1]);
      %1 = nn.batch_norm(%0, %b, %b, %b, %b);
      %2 = nn.max_pool2d(maximum(%1, %1 * 0.5f), pool_size=[2, 2], strides=[2, 2]);
      %3 = nn.dense(reshape(%2, newshape=[1, 64]), %d);
      %4 = full(shape=[1, 10], fill_value=0);
      let %t = transpose(%y, axes=[0, 2, 1]);
      (concatenate(%3, %4, %4 + 1f, axis=1), nn.matmul(%y, %t), cast(%3, dtype="float64"))
    }}"""
    module, wanted = verify(lw.parse(relays)), lw.parse(ours)
    args = [np.abs(a) for a in random_args(module)]
    assert_same_value(evaluate(module, *args), evaluate(wanted, *args))
    with pytest.raises(LoopwrightError, match="has no attribute channels"):
        lw.parse(relays.partition("\n")[2].replace("// a small network", ""))


def test_prelude_computes_what_it_says() -> None:
    def result(expression: str) -> object:
        module = verify(lw.parse(f"def @main() {{ {expression} }}"))
        return evaluate(specialise_types(module))

    numbers = "@range(0i64, 5i64)"
    double = "fn (%x: int64) { %x * 2i64 }"
    for expression, value in {
        f"@sum({numbers})": 10,
        f"@length(@concat({numbers}, {numbers}))": 10,
        f"@head(@tail({numbers}))": 1,
        f"@nth(@update(@reverse({numbers}), 1i64, 7i64), 1i64)": 7,
        f"@sum(@map({double}, @filter(fn (%x: int64) {{ %x > 2i64 }}, {numbers})))": 14,
        f"@foldr(fn (%x: int64, %y: int64) {{ %x - %y }}, 0i64, {numbers})": 2,
        f"@foldr1(fn (%x: int64, %y: int64) {{ %x - %y }}, {numbers})": 2,
        f"@sum(@map(fn (%p: (int64, int64)) {{ %p.0 * %p.1 }}, @zip({numbers}, {numbers})))": 30,
        f"@iterate({double}, 10i64)(1i64)": 1024,
        f"@compose({double}, {double})(3i64)": 12,
        "@flip(fn (%x: int64, %y: int64) { %x - %y })(1i64, 3i64)": 2,
        "@curry(fn (%x: int64, %y: int64) { %x - %y })(1i64)(3i64)": -2,
        f"@option({double}, 5i64, @first({numbers}))": 0,
        f"@option({double}, 5i64, @first(@tail(Cons(1i64, Nil))))": 5,
        "@size(Rose(1, Cons(Rose(2, Nil), Cons(Rose(3, Nil), Nil))))": 3,
        "@size(@map_tree(fn (%x: int32) { %x < 2 }, Rose(1, Cons(Rose(2, Nil), Nil))))": 2,
        f"@fold_binary({double}, fn (%x: int64, %y: int64) {{ %x + %y }}, Node(Leaf(1i64), "
        "Node(Leaf(2i64), Leaf(3i64))))": 12,
        "@length(@unfold(fn (%n: int64) { if (%n < 4i64) { Some((%n + 1i64, %n)) } "
        "else { None } }, 0i64))": 4,
    }.items():
        assert result(expression) == value, expression
    used = " ".join(name for name in prelude() if name.startswith("@"))
    assert len(used.split()) == 27


@pytest.mark.parametrize("first", range(0, 60, 15))
def test_random_programs_come_back_and_stay_the_same(first: int) -> None:
    """Texts, and passes that have functions and data: longer runs by ``language_run.py``."""
    for seed in range(first, first + 15):
        assert fault_of(seed) is None, seed


@pytest.mark.parametrize("first", range(100, 124, 6))
def test_random_programs_compiled(first: int) -> None:
    for seed in range(first, first + 6):
        assert fault_of(seed, compiled=True) is None, seed


def test_verifier_finds_what_a_pass_may_break() -> None:
    text = "def @main(%x: Option[int64]) { match (%x) { Some(%a) => %a, None => 0i64 } }"
    module = lw.parse(text)
    match = module.main.body.bindings[-1].value
    assert isinstance(match, nodes.Match)
    var = module.main.body.bindings[-1].var

    def broken(cases: tuple[nodes.Case, ...], message: str) -> None:
        value = nodes.Match(match.value, cases)
        block = nodes.Block((nodes.Binding(var, value),), var)
        with pytest.raises(InternalError, match=message):
            verify(module.with_function("main", module.main.with_body(block)))

    some, none = match.cases
    broken((some,), "no case for None")
    broken((some, nodes.Case(some.pattern, none.block)), "is bound twice")
    wrong = nodes.ConstructorPattern(nodes.Constructor("Cons", match.value.type, data="List"))
    broken((nodes.Case(wrong, none.block), some, none), "a pattern of Cons for Option")
    pair = nodes.ConstructorPattern(None, (nodes.Wildcard(),))
    broken((nodes.Case(pair, none.block), some, none), "a pattern of a tuple for Option")


def test_a_match_without_a_case_fails_and_says_for_what() -> None:
    module = lw.parse("def @main(%n: int64) { @head(@range(0i64, %n)) }")
    assert evaluate(module, np.array(2)) == 0
    with pytest.raises(LoopwrightError, match="no case for Nil"):
        evaluate(module, np.array(0))
    run = lw.build(module)
    assert run(np.int64(2)) == 0
    with pytest.raises(ValueError, match="no case for this value"):
        run(np.int64(0))


# -- passes ----------------------------------------------------------------------------------------


def test_functions_are_copied_for_their_types() -> None:
    check_pass(
        specialise_types,
        before="""
        def @main(%x: Tensor[(4), float32], %n: int64) {
          let %pair = fn [A](%a: A) -> (A, A) { (%a, %a) };
          (@same(%x), @same(%n), %pair(@same(True)))
        }
        def @same[A](%x: A) -> A { %x }
        """,
        after="""
        def @main(%x: Tensor[(4), float32], %n: int64) {
          %0 = @same(%x);
          %1 = @same_1(%n);
          %2 = @same_2(True);
          %pair = fn (%a: bool) { (%a, %a) };
          %3 = %pair(%2);
          (%0, %1, %3)
        }
        def @same(%x: Tensor[(4), float32]) { %x }
        def @same_1(%x: int64) { %x }
        def @same_2(%x: bool) { %x }
        """,
    )
    endless = "def @f[A](%x: A) -> int64 { @f((%x, %x)) } def @main() { @f(1) }"
    with pytest.raises(LoopwrightError, match="no end of them"):
        specialise_types(lw.parse(endless))


def test_known_values_decide_matches(golden: Callable[[str, str], None]) -> None:
    """A golden file of programs and what is left of ``main``."""

    def left(text: str) -> list[str]:
        module = inline_calls(specialise_types(lw.parse(text)))
        for _ in range(2):  # functions that were handed over are called where they are known
            module = verify(fold_constants(inline_calls(evaluate_partially(module))))
        one, end = np.array(1, np.float32), Made("Nil", ())
        values = {"List": Made("Cons", (one, end)), "Option": Made("Some", (one,))}
        kinds = [p.type for p in module.main.params]
        args = [
            values.get(getattr(k, "name", ""), one == 1 if k == BOOL_SCALAR else one) for k in kinds
        ]
        assert is_same(evaluate(module, *args), evaluate(lw.parse(text), *args))
        return str(module.main).splitlines()

    golden(answers("partial.txt", left), "partial.txt")


def test_functions_that_are_called_are_lifted() -> None:
    check_pass(
        lift_functions,
        before="""
        def @main(%x: Tensor[(4), float32], %y: Tensor[(4), float32]) {
          let %f = fn (%a: Tensor[(4), float32]) { %a * %y };
          %f(%f(%x))
        }""",
        after="""
        def @main(%x: Tensor[(4), float32], %y: Tensor[(4), float32]) {
          %0 = @f(%x, %y);
          @f(%0, %y)
        }
        def @f(%a: Tensor[(4), float32], %y: Tensor[(4), float32]) { %a * %y }""",
    )


def test_lifted_functions_that_capture_results_of_lifted_ones() -> None:
    check_pass(
        lift_functions,
        before="""
        def @main(%c: float32) {
          let %f = fn (%a: float32) { exp(%a) };
          let %b = %f(%c);
          let %g = fn (%d: float32) { %d + %b };
          %g(1f)
        }""",
        after="""
        def @main(%c: float32) {
          %b = @f(%c);
          @g(1f, %b)
        }
        def @f(%a: float32) { exp(%a) }
        def @g(%d: float32, %b: float32) { %d + %b }""",
    )


def test_functions_that_are_values_become_data() -> None:
    check_pass(
        defunctionalise,
        before="""
        def @main(%x: Tensor[(4), float32], %n: int64) {
          let %f = @scaled_by(%n);
          %f(%x)
        }
        def @scaled_by(%n: int64) {
          let %c = cast(%n, dtype="float32");
          fn (%x: Tensor[(4), float32]) { %x * %c }
        }""",
        after="""
        type Function { Scaled_by(float32) }
        def @main(%x: Tensor[(4), float32], %n: int64) {
          %f = @scaled_by(%n);
          @apply(%f, %x)
        }
        def @scaled_by(%n: int64) {
          %c = cast(%n, dtype="float32");
          Scaled_by(%c)
        }
        def @apply(%function: Function, %x1: Tensor[(4), float32]) {
          match (%function) { Scaled_by(%c) => { %x1 * %c } }
        }""",
    )


def test_dead_code_keeps_what_writes_references() -> None:
    check_pass(
        eliminate_dead_code,
        before="""
        def @main(%x: float32, %c: bool) {
          let %r = ref(%x);
          let %unused = ref_read(%r);
          let %f = fn (%y: float32) { let %u = ref_write(%r, %y); %y };
          let %a = %f(2f);
          let %b = exp(%a);
          let %d = if (%c) { let %v = ref_write(%r, 3f); 1f } else { 2f };
          let %other = ref(%a);
          ref_read(%r)
        }""",
        after="""
        def @main(%x: float32, %c: bool) {
          %r = ref(%x);
          %f = fn (%y: float32) { let %u = ref_write(%r, %y); %y };
          %a = %f(2f);
          %d = if (%c) { let %v = ref_write(%r, 3f); 1f } else { 2f };
          ref_read(%r)
        }""",
    )


# -- compiled --------------------------------------------------------------------------------------


def test_a_module_with_data_and_functions_is_built() -> None:
    program = lw.build(
        """
        def @main(%x: Tensor[(n), float32], %count: int64) {
          @foldl(fn (%a, %i) { %a + cast(%i, dtype="float32") }, %x, @range(0i64, %count))
        }"""
    )
    assert program(np.zeros(3, np.float32), np.int64(5)).tolist() == [10, 10, 10]
    assert program(np.zeros(2, np.float32), np.int64(1)).tolist() == [0, 0]
    with pytest.raises(lw.LoopwrightError, match=r"main takes or returns List") as caught:
        lw.build("def @main(%xs: List[int64]) { @length(%xs) }")
    assert "lw.as_function" in str(caught.value)


def test_gradients_go_through_functions_data_and_references() -> None:
    function = lw.as_function(
        lw.parse(
            """
            def @main(%x: float64) {
              let %total = ref(0f64);
              let %powers = @map(fn (%f) { %f(%x) }, @powers(3i64));
              let %sum = @foldl(fn (%a, %b) { %a + %b }, 0f64, %powers);
              let %u = ref_write(%total, ref_read(%total) + %sum);
              ref_read(%total)
            }
            def @powers(%n: int64) -> List[fn (float64) -> float64] {
              if (%n == 0i64) { Nil } else {
                let %rest = @powers(%n - 1i64);
                let %step = match (%rest) {
                  Cons(%f, _) => fn (%x: float64) { %f(%x) * %x },
                  Nil => fn (%x: float64) { %x },
                };
                Cons(%step, %rest)
              }
            }"""
        )
    )
    assert float(lw.compile(function)(2.0)) == 2 + 4 + 8
    assert float(lw.compile(lw.grad(function))(2.0)) == 1 + 4 + 12


def test_sizes_within_data_and_around_functions() -> None:
    """Functions have names of their own for sizes, and arrays in data tell what they are."""
    function = lw.as_function(
        lw.parse(
            """
            def @main(%xs: List[Tensor[(n), float32]], %y: Tensor[(k), float32]) {
              let %f = fn (%a: int64) { full(shape=[k], fill_value=1, dtype="float32") * %y };
              (@total(%xs), %f(1i64))
            }
            def @total(%ys: List[Tensor[(m), float32]]) -> Tensor[(m), float32] {
              match? (%ys) {
                Cons(%y, Nil) => %y * full(shape=[m], fill_value=2, dtype="float32"),
                Cons(%y, %rest) => %y + @total(%rest),
              }
            }"""
        )
    )
    made = function.types["List[Tensor[(n), float32]]"]
    compiled = lw.compile(function)
    for size in (3, 5):
        one = np.ones(size, np.float32)
        total, scaled = compiled(made.Cons(one, made.Cons(one, made.Nil())), one[:2])
        assert total.tolist() == [3.0] * size and scaled.tolist() == [1.0, 1.0]
    unknown = lw.parse(
        "def @main(%xs: List[Tensor[(n), float32]]) { full(shape=[n], fill_value=1) }"
    )
    empty = lw.as_function(unknown)
    with pytest.raises(LoopwrightError, match="the size n is that of no array here"):
        lw.compile(empty)(empty.types["List[Tensor[(n), float32]]"].Nil())


def test_recursion_is_deep() -> None:
    """A million calls that are the last thing a function does, and 100,000 others."""
    program = lw.build(
        """
        def @main(%n: int64, %m: int64) { (@last(%n, Some(7i64)), @deep(%m, Some(1i64))) }
        def @last(%n: int64, %found: Option[int64]) -> int64 {
          if (%n == 0i64) { match (%found) { Some(%x) => %x, None => 0i64 } }
          else { @last(%n - 1i64, %found) }
        }
        def @deep(%n: int64, %step: Option[int64]) -> int64 {
          match (%step) {
            Some(%one) => if (%n == 0i64) { 0i64 } else { %one + @deep(%n - 1i64, %step) },
            None => 0i64,
          }
        }"""
    )
    assert program(np.int64(1_000_000), np.int64(100_000)) == (7, 100_000)


def test_arguments_are_of_their_types() -> None:
    function = lw.as_function(
        lw.parse("def @main(%xs: List[float32], %k: float32) { @map(fn (%x) { %x * %k }, %xs) }")
    )
    made = function.types["List[Tensor[(), float32]]"]
    xs = made.Cons(np.float32(2), made.Nil())
    for call in (function, lw.compile(function)):
        assert float(call(xs, 3.0).field0) == 6
        with pytest.raises(LoopwrightError, match=r"xs is List.*, and this is a list"):
            call([1.0], 3.0)
        with pytest.raises(LoopwrightError, match=r"k is Tensor.*, and this is int64\[\]"):
            call(xs, np.int64(3))
    text = lw.compile(function).lower(xs, 3.0).as_text("graph")
    assert "Function" not in text  # what a trace knows becomes no data


def test_as_function_says_what_it_cannot_be() -> None:
    for text, message in {
        "def @main[A](%x: A) -> A { %x }": "@main is over types: A",
        "def @main() { fn (%x: int64) { %x } }": "@main takes or returns a function",
        "def @other() { 1 }": "there is no graph function @main",
    }.items():
        with pytest.raises(lw.LoopwrightError, match=message):
            lw.as_function(lw.parse(text))
