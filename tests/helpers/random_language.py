"""Random programs of the graph's language: data types, functions as values, references, loops.

Each kind of expression that a type can come from is a method called ``_<kind>_of``; a program draws
from all of them, so that a new kind is one more method. Programs end: functions that call
themselves do so on parts of their argument, or are the prelude's.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import loopwright as lw
import numpy as np
from loopwright.ir.graph.evaluate import Made, evaluate
from loopwright.ir.graph.passes.defunctionalise import defunctionalise
from loopwright.ir.graph.passes.eliminate_dead_code import eliminate_dead_code
from loopwright.ir.graph.passes.evaluate_partially import evaluate_partially
from loopwright.ir.graph.passes.inline_calls import inline_calls
from loopwright.ir.graph.passes.lift_functions import lift_functions
from loopwright.ir.graph.passes.specialise_types import specialise_types
from loopwright.ir.graph.verify import verify

SCALARS = ("int64", "float32", "bool")
ARRAY = "Tensor[(3), float32]"
GENERIC = ("List", "Option", "Binary")
DEPTH = 3
"""Expressions inside each other at most."""

PARAMETERS = {"%x": ARRAY, "%y": ARRAY, "%n": "int64", "%c": "float32"}


class RandomProgram:
    """One program; ``text`` is its text, without types of variables where they can be inferred."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.names = 0
        self.functions: list[str] = []
        self.recursive: dict[tuple[str, str], str] = {}
        self.in_recursion = False
        result = self.type(2, functions=False)
        body = self.block(result, dict(PARAMETERS), DEPTH)
        params = ", ".join(f"{name}: {kind}" for name, kind in PARAMETERS.items())
        main = f"def @main({params}) -> {result} {{\n{body}\n}}"
        self.text = "\n\n".join([main, *self.functions])

    def arguments(self) -> tuple[np.ndarray, ...]:
        """Returns arguments of ``main``."""
        rng = np.random.default_rng(self.random.randrange(1 << 30))
        x, y = rng.integers(-3, 4, (2, 3)).astype(np.float32)
        return x, y, np.array(rng.integers(-2, 3)), np.array(rng.integers(-2, 3), np.float32)

    def type(self, depth: int, functions: bool = True) -> str:
        """Returns a type."""
        pick = self.random.random()
        if depth == 0 or pick < 0.5:
            return self.random.choice([*SCALARS, ARRAY])
        if pick < 0.75:
            return f"{self.random.choice(GENERIC)}[{self.type(depth - 1, False)}]"
        if pick < 0.9 or not functions:
            return f"({self.type(depth - 1, False)}, {self.type(depth - 1, False)})"
        return f"fn ({self.type(depth - 1, False)}) -> {self.type(depth - 1, False)}"

    def name(self) -> str:
        self.names += 1
        return f"%v{self.names}"

    def block(self, kind: str, scope: dict[str, str], depth: int) -> str:
        """Returns bindings and a value of a type."""
        scope = dict(scope)
        lines: list[str] = []
        for _ in range(self.random.randrange(3) if depth > 1 else 0):
            name, bound = self.name(), self.type(2)
            if self.random.random() < 0.15:
                bound = f"ref({self.random.choice([*SCALARS, ARRAY])})"
            lines.append(f"let {name} = {self.expr(bound, scope, depth - 1)};")
            scope[name] = bound
            if bound.startswith("ref(") and self.random.random() < 0.8:
                value = self.expr(bound[4:-1], scope, depth - 2)
                lines.append(f"let {self.name()} = ref_write({name}, {value});")
        return "\n".join([*lines, self.expr(kind, scope, depth)])

    def expr(self, kind: str, scope: dict[str, str], depth: int) -> str:
        """Returns an expression of a type."""
        known = [name for name, type in scope.items() if type == kind]
        if known and self.random.random() < (0.3 if depth > 0 else 0.9):
            return self.random.choice(known)
        if depth <= 0:
            return self._leaf(kind, scope)
        kinds = [m for m in dir(self) if m.endswith("_of")]
        self.random.shuffle(kinds)
        for method in kinds:
            make: Callable[..., str | None] = getattr(self, method)
            made = make(kind, scope, depth - 1)
            if made is not None:
                return made
        return self._leaf(kind, scope)

    def _leaf(self, kind: str, scope: dict[str, str]) -> str:
        pick = self.random
        if kind == "int64":
            return f"{pick.randrange(-3, 4)}i64"
        if kind == "float32":
            return f"{pick.randrange(-3, 4)}f"
        if kind == "bool":
            return pick.choice(["True", "False"])
        if kind == ARRAY:
            return "%x"
        if kind.startswith("("):
            return written_tuple([self._leaf(k, scope) for k in parts(kind[1:-1])])
        if kind.startswith("fn "):
            given, result = signature(kind)
            return f"fn ({self.name()}: {given}) -> {result} {{ {self._leaf(result, scope)} }}"
        if kind.startswith("ref("):
            return f"ref({self._leaf(kind[4:-1], scope)})"
        name, inner = applied(kind)
        if name == "Binary":
            return f"Leaf({self._leaf(inner, scope)})"
        return {"List": "Nil", "Option": "None"}[name]

    # -- kinds of expressions ----------------------------------------------------------------------

    def _arithmetic_of(self, kind: str, scope: dict[str, str], depth: int) -> str | None:
        if kind not in ("int64", "float32", ARRAY):
            return None
        one, other = (self.expr(kind, scope, depth) for _ in range(2))
        operator = self.random.choice(["+", "-", "*"] if kind == "int64" else ["+", "-"])
        if self.random.random() < 0.3:
            return f"{self.random.choice(['maximum', 'minimum'])}({one}, {other})"
        return f"({one} {operator} {other})"

    def _comparison_of(self, kind: str, scope: dict[str, str], depth: int) -> str | None:
        if kind != "bool":
            return None
        of = self.random.choice(["int64", "float32"])
        operator = self.random.choice(["<", "<=", ">", ">=", "==", "!="])
        return f"({self.expr(of, scope, depth)} {operator} {self.expr(of, scope, depth)})"

    def _reduction_of(self, kind: str, scope: dict[str, str], depth: int) -> str | None:
        return f"max({self.expr(ARRAY, scope, depth)})" if kind == "float32" else None

    def _branch_of(self, kind: str, scope: dict[str, str], depth: int) -> str | None:
        if kind.startswith("ref("):
            return None
        condition = self.expr("bool", scope, depth)
        then, orelse = (self.block(kind, scope, depth) for _ in range(2))
        return f"if ({condition}) {{\n{then}\n}} else {{\n{orelse}\n}}"

    def _tuple_of(self, kind: str, scope: dict[str, str], depth: int) -> str | None:
        if not kind.startswith("("):
            return None
        return written_tuple([self.expr(k, scope, depth) for k in parts(kind[1:-1])])

    def _field_of(self, kind: str, scope: dict[str, str], depth: int) -> str | None:
        if kind.startswith(("fn ", "ref(")):
            return None
        other, index = self.type(1, False), self.random.randrange(2)
        fields = [kind, other] if index == 0 else [other, kind]
        return f"({', '.join(self.expr(k, scope, depth) for k in fields)}).{index}"

    def _constructor_of(self, kind: str, scope: dict[str, str], depth: int) -> str | None:
        name, inner = applied(kind)
        if name == "List":
            return f"Cons({self.expr(inner, scope, depth)}, {self.expr(kind, scope, depth)})"
        if name == "Option":
            return f"Some({self.expr(inner, scope, depth)})"
        if name == "Binary":
            return f"Node({self.expr(kind, scope, depth)}, {self.expr(kind, scope, depth)})"
        return None

    def _match_of(self, kind: str, scope: dict[str, str], depth: int) -> str | None:
        if kind.startswith("ref("):
            return None
        inner = self.type(1, False)
        a, b, c = self.name(), self.name(), self.name()
        listed = f"List[{inner}]"
        name, cases = self.random.choice(
            [
                ("List", [(f"Cons({a}: {inner}, {b})", {a: inner, b: listed}), ("Nil", {})]),
                (
                    "List",
                    [
                        (f"Cons({a}: {inner}, Cons({b}, {c}))", {a: inner, b: inner, c: listed}),
                        ("_", {}),
                    ],
                ),
                ("Option", [(f"Some({a}: {inner})", {a: inner}), (b, {b: f"Option[{inner}]"})]),
                (
                    "Binary",
                    [
                        (f"Node(Leaf({a}: {inner}), {b})", {a: inner, b: f"Binary[{inner}]"}),
                        (f"Leaf({c})", {c: inner}),
                        ("Node(_, _)", {}),
                    ],
                ),
            ]
        )
        value = self.expr(f"{name}[{inner}]", scope, depth)
        arms = [f"{p} => {{\n{self.block(kind, {**scope, **v}, depth)}\n}}," for p, v in cases]
        return "\n".join([f"match ({value}) {{", *arms, "}"])

    def _lambda_of(self, kind: str, scope: dict[str, str], depth: int) -> str | None:
        if not kind.startswith("fn "):
            return None
        given, result = signature(kind)
        name = self.name()
        body = self.block(result, {**scope, name: given}, depth)
        return f"fn ({name}: {given}) -> {result} {{\n{body}\n}}"

    def _application_of(self, kind: str, scope: dict[str, str], depth: int) -> str | None:
        if kind.startswith(("fn ", "ref(")):
            return None
        given = self.type(1, False)
        function = self.expr(f"fn ({given}) -> {kind}", scope, depth)
        argument = self.expr(given, scope, depth)
        return f"@apply_to({argument}, {function})" if self._needs("@apply_to", APPLY) else None

    def _read_of(self, kind: str, scope: dict[str, str], depth: int) -> str | None:
        cells = [name for name, type in scope.items() if type == f"ref({kind})"]
        return f"ref_read({self.random.choice(cells)})" if cells else None

    def _reference_of(self, kind: str, scope: dict[str, str], depth: int) -> str | None:
        return f"ref({self.expr(kind[4:-1], scope, depth)})" if kind.startswith("ref(") else None

    def _map_of(self, kind: str, scope: dict[str, str], depth: int) -> str | None:
        name, inner = applied(kind)
        if name != "List":
            return None
        given = self.type(1, False)
        function = self.expr(f"fn ({given}) -> {inner}", scope, depth)
        return f"@map({function}, {self.expr(f'List[{given}]', scope, depth)})"

    def _list_of(self, kind: str, scope: dict[str, str], depth: int) -> str | None:
        name, inner = applied(kind)
        if name != "List":
            return None
        one, other = (self.expr(kind, scope, depth) for _ in range(2))
        if inner == "int64" and self.random.random() < 0.3:
            return "@range(0i64, 3i64)"
        test = self.expr(f"fn ({inner}) -> bool", scope, depth)
        choices = [f"@concat({one}, {other})", f"@reverse({one})", f"@filter({test}, {one})"]
        return self.random.choice(choices)

    def _zip_of(self, kind: str, scope: dict[str, str], depth: int) -> str | None:
        name, inner = applied(kind)
        if name != "List" or not inner.startswith("("):
            return None
        first, second = parts(inner[1:-1])
        xs, ys = (self.expr(f"List[{k}]", scope, depth) for k in (first, second))
        return f"@zip({xs}, {ys})"

    def _fold_of(self, kind: str, scope: dict[str, str], depth: int) -> str | None:
        if kind.startswith(("fn ", "ref(")):
            return None
        inner = self.type(1, False)
        a, b = self.name(), self.name()
        body = self.block(kind, {**scope, a: kind, b: inner}, depth)
        function = f"fn ({a}: {kind}, {b}: {inner}) -> {kind} {{\n{body}\n}}"
        start, values = (self.expr(k, scope, depth) for k in (kind, f"List[{inner}]"))
        return f"@foldl({function}, {start}, {values})"

    def _length_of(self, kind: str, scope: dict[str, str], depth: int) -> str | None:
        if kind != "int64":
            return None
        return f"@length({self.expr(f'List[{self.type(1, False)}]', scope, depth)})"

    def _iterate_of(self, kind: str, scope: dict[str, str], depth: int) -> str | None:
        if kind not in (*SCALARS, ARRAY):
            return None
        step = self.expr(f"fn ({kind}) -> {kind}", scope, depth)
        count = self.random.randrange(4)
        return (
            f"@call(@iterate({step}, {count}i64), {self.expr(kind, scope, depth)})"
            if (self._needs("@call", CALL))
            else None
        )

    def _recursion_of(self, kind: str, scope: dict[str, str], depth: int) -> str | None:
        """A function of the program that folds a tree of two branches."""
        if kind.startswith(("fn ", "ref(")) or self.in_recursion:
            return None
        inner = self.type(1, False)
        key = (inner, kind)
        if key not in self.recursive:
            name = self.recursive[key] = f"@recursion{len(self.recursive)}"
            a, b, c = self.name(), self.name(), self.name()
            self.in_recursion = True
            leaf = self.block(kind, {a: inner, "%x": ARRAY}, 1)
            node = self.block(kind, {b: kind, c: kind, "%x": ARRAY}, 1)
            self.in_recursion = False
            self.functions.append(
                f"def {name}(%tree: Binary[{inner}], %x: {ARRAY}) -> {kind} {{\n"
                f"match (%tree) {{\nLeaf({a}) => {{\n{leaf}\n}},\n"
                f"Node(%left, %right) => {{\nlet {b} = {name}(%left, %x);\n"
                f"let {c} = {name}(%right, %x);\n{node}\n}}\n}}\n}}"
            )
        return f"{self.recursive[key]}({self.expr(f'Binary[{inner}]', scope, depth)}, %x)"

    def _loop_of(self, kind: str, scope: dict[str, str], depth: int) -> str | None:
        if kind not in (*SCALARS, ARRAY):
            return None
        name, index = self.name(), self.name()
        start = self.expr(kind, scope, depth)
        body = self.block(f"({kind},)", {**scope, name: kind, index: "int64"}, depth)
        return f"(for ({index} < 3i64; {name} = {start}) {{\n{body}\n}}).0"

    def _needs(self, name: str, definition: str) -> bool:
        if definition not in self.functions:
            self.functions.append(definition)
        return True


APPLY = "def @apply_to[A, B](%x: A, %f: fn (A) -> B) -> B { %f(%x) }"
CALL = "def @call[A, B](%f: fn (A) -> B, %x: A) -> B { %f(%x) }"


def written_tuple(fields: list[str]) -> str:
    """Returns the text of a tuple."""
    return f"({fields[0]},)" if len(fields) == 1 else f"({', '.join(fields)})"


def parts(text: str) -> list[str]:
    """Returns the types in a list of them."""
    made, depth, start = [], 0, 0
    for at, char in enumerate(text):
        depth += (char in "([") - (char in ")]")
        if char == "," and depth == 0:
            made.append(text[start:at].strip())
            start = at + 1
    return [part for part in [*made, text[start:].strip()] if part]


def signature(kind: str) -> tuple[str, str]:
    """Returns the type of a function's parameter and that of its result."""
    depth = 0
    for at, char in enumerate(kind):
        depth += (char in "([") - (char in ")]")
        if char == ")" and depth == 0:
            return kind[4:at], kind[at + 5 :]
    raise ValueError(kind)


def applied(kind: str) -> tuple[str, str]:
    """Returns the name of a data type and what it is applied to; empty texts for other types."""
    name, bracket, rest = kind.partition("[")
    return (name, rest[:-1]) if bracket and name in GENERIC else ("", "")


PASSES = (
    specialise_types,
    inline_calls,
    evaluate_partially,
    lift_functions,
    eliminate_dead_code,
    defunctionalise,
)


def fault_of(seed: int, compiled: bool = False) -> str | None:
    """Returns what is wrong with the program of a seed: its text does not come back, a pass changes
    what it computes, or compiled code computes something else; None if nothing is."""
    program = RandomProgram(seed)
    module = verify(lw.parse(program.text))
    again = lw.parse(str(module))
    if str(again) != str(module):
        return "the text of the module is read as another one"
    args = program.arguments()
    wanted = evaluate(module, *args)
    steps = {"parse": again}
    for step in PASSES:
        module = steps[step.__name__] = verify(step(module))
    for name, changed in steps.items():
        if not is_same(evaluate(changed, *args), wanted):
            return f"{name} changes the result"
    if compiled:
        function = lw.as_function(again)
        if not is_same_object(lw.compile(function)(*args), function(*args)):
            return "compiled code gives another result"
    return None


def is_same(one: Any, other: Any) -> bool:
    """True if two values of the interpreter are the same."""
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(is_same, one, other))
    if isinstance(one, Made):
        return one.constructor == other.constructor and is_same(one.fields, other.fields)
    return bool(np.array_equal(one, other, equal_nan=True))


def is_same_object(one: Any, other: Any) -> bool:
    """True if two results of functions of Python's are the same."""
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(is_same_object, one, other))
    if hasattr(one, "__family__"):
        fields = [(getattr(one, n), getattr(other, n)) for n in one.__match_args__]
        return type(one) is type(other) and all(is_same_object(a, b) for a, b in fields)
    return bool(np.array_equal(one, other, equal_nan=True))
