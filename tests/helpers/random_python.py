"""Random Python programs that mix state, effects, sizes, dtypes and control flow.

Other generators know one part in depth (``random_control``, ``random_aliasing``, ``random_sizes``);
this one mixes all of them, and draws programs that Python itself refuses.
"""

from __future__ import annotations

from typing import Any

from python_program import ARGUMENTS, DTYPES, MUTATIONS, Program, Type
from random_control import Group, Statement
from random_draw import Draw

__all__ = ["draw_python"]


class Writer:
    """Draws the statements of a program."""

    def __init__(self, draw: Draw) -> None:
        self.draw = draw
        self.count = 0

    def program(self, most: int) -> Program:
        scope = dict(ARGUMENTS)
        body = self.body(scope, self.draw.between(1, most), 0)
        made = [name for name in scope if name not in ARGUMENTS]
        body.statements.append(Statement([f"return ({''.join(f'{v}, ' for v in made)})"]))
        kind = self.draw.pick(("function",) * 6 + ("method", "dynamic"))
        scenario: list[str] = [f"call {self.draw.between(0, 999)}"]
        for _ in range(self.draw.between(1, 3)):
            if self.draw.between(0, 1):
                scenario.append(self.draw.pick(MUTATIONS))
            scenario.append(f"call {self.draw.between(0, 999)}")
        return Program(body, scenario, kind)

    def name(self, prefix: str = "v") -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def body(self, scope: dict[str, Type], count: int, depth: int) -> Group:
        group = Group()
        for _ in range(count):
            kinds = [self.assign] * 4 + [
                self.alias,
                self.make,
                self.write,
                self.write,
                self.captured,
            ]
            kinds += [self.selected, self.window, self.indexed, self.narrow, self.library]
            kinds += [self.effect] if self.draw.between(0, 2) == 0 else []
            kinds += [self.python] if depth == 0 else []
            if depth < 2:
                kinds += [self.fori, self.fori, self.whiled, self.cond, self.scan, self.mapped]
                kinds += [self.switch, self.function]
            group.statements += self.draw.pick(kinds)(scope, depth)
        return group

    # -- plain statements

    def assign(self, scope: dict[str, Type], depth: int) -> list[Statement]:
        type_ = scope[self.draw.pick(list(scope))]
        return [self.named(scope, self.expression(scope, type_), type_)]

    def named(self, scope: dict[str, Type], text: str, type_: Type) -> Statement:
        name = self.name()
        scope[name] = type_
        return Statement([f"{name} = {text}"])

    def make(self, scope: dict[str, Type], depth: int) -> list[Statement]:
        size = self.draw.pick((2, 4, 6))
        text, kind = self.draw.pick(
            (
                (f"np.zeros({size})", "f"),
                (f"np.ones({size}, np.float32)", "g"),
                (f"np.arange({size})", "i"),
                (f"np.arange({size}.0)[::-1]", "f"),
                (f"np.full({size}, 3)", "i"),
                (f"np.array({[*range(size)]})", "i"),
                (f"np.array({[0.5] * size})", "f"),
                (f"np.linspace(0, {size - 1}, {size})", "f"),
                (f"np.zeros({size}, np.uint8)", "u"),
                (f"np.zeros({size}, bool)", "b"),
                (f"np.arange({size}) * 2", "i"),
                (f"np.concatenate([np.zeros({size - 1}), np.ones(1)])", "f"),
                (f"[np.zeros({size})][0]", "f"),
                (f"np.zeros(({size}, 2))[:, 1]", "f"),
                (f"lw.xp.zeros({size})", "f"),
            )
        )
        return [self.named(scope, text, (kind, (size,)))]

    def alias(self, scope: dict[str, Type], depth: int) -> list[Statement]:
        source = self.array(scope)
        kind, shape = scope[source]
        views: list[tuple[str, tuple[Any, ...]]] = [
            ("", shape),
            ("[::-1]", shape),
            (".copy()", shape),
        ]
        if isinstance(shape[0], int) and shape[0] > 2:
            views += [
                ("[1:]", (shape[0] - 1, *shape[1:])),
                ("[::2]", ((shape[0] + 1) // 2, *shape[1:])),
            ]
        if len(shape) == 2:
            views += [(".T", shape[::-1]), ("[1]", shape[1:]), ("[:, 0]", shape[:1])]
        text, shape = self.draw.pick(views)
        return [self.named(scope, f"{source}{text}", (kind, shape))]

    def write(self, scope: dict[str, Type], depth: int) -> list[Statement]:
        target = self.array(scope)
        kind, _ = scope[target]
        value = self.draw.pick(("1", "0", "2", self.scalar(scope, kind), self.scalar(scope, kind)))
        i, j = self.integer(scope), self.integer(scope)
        other = self.expression(scope, scope[target])
        mask = self.mask(scope, scope[target])
        whole = "[:]" if depth else ""  # an inner function would have a variable of its own
        return [
            Statement(
                [
                    self.draw.pick(
                        (
                            f"{target}[0] = {value}",
                            f"{target}[1] += {value}",
                            f"{target}[{i}] = {value}",
                            f"{target}[{i}] += {value}",
                            f"{target}[{i}:] = {value}",
                            f"{target}[{i}:{j}] = {value}",
                            f"{target}[:] = {other}",
                            f"{target}{whole} += {value}",
                            f"{target}{whole} *= {value}",
                            f"{target}[{mask}] = {value}",
                            f"{target}[{mask}] += {value}",
                            f"np.add.at({target}, I % 2, {value})",
                            f"np.add({target}, {value}, out={target})",
                            f"{target}.fill({value})",
                            f"{target}[k % 3] = {value}",
                            f"{target}[1:][0] = {value}",
                            f"np.copyto({target}, {value})",
                            f"np.put({target}, [0, 1], {value})",
                        )
                    )
                ]
            )
        ]

    def captured(self, scope: dict[str, Type], depth: int) -> list[Statement]:
        """Reads what is outside."""
        v = self.expression(scope, ("f", (6,)))
        text = self.draw.pick(
            (
                f"{v} + W",
                f"{v} * R",
                f"{v} * G",
                f"{v} if FLAG else -{v}",
                f"helper({v})",
                f"layer({v})",
                f"{v} * cfg['scale'] + cfg['deep']['w'][1]",
                f"{v} + ws[0] + len(ws)",
                f"inner({v})",
                f"sum([l({v}) for l in net], 0 * {v})",
                f"{v} + len(cfg['names'])",
                f"layer.w * {v} + Layer.bias",
                f"W[I % 6].sum() + {v}",
                f"np.where(W > 0, {v}, layer.gain)",
            )
        )
        return [self.named(scope, text, ("f", (6,)))]

    def effect(self, scope: dict[str, Type], depth: int) -> list[Statement]:
        """Changes what is outside, while Python runs the function."""
        v, n = self.scalar(scope, "f"), self.integer(scope)
        text = self.draw.pick(
            (
                "W[0] += 1",
                f"W[1] = {v}",
                f"ws[0][{n} % 6] = 1.0",
                "log.append(1)",
                f"log.append({v})",
                "layer.calls += 1",
                "layer.gain = layer.gain + 1",
                f"layer.w[0] = {v}",
                "cfg['scale'] = 1.0",
                "cfg['count'] = cfg.get('count', 0) + 1",
                "stock.pop(0)",
                "net.reverse()",
                "W.sort()",
            )
        )
        if self.draw.between(0, 1):
            return [Statement([text])]
        drawn = ("stock.pop(0) * 1.0", "next(numbers) * 1.0", "rng.random()", "layer.counted(1.0)")
        return [self.named(scope, self.draw.pick(drawn), ("f", ()))]

    def python(self, scope: dict[str, Type], depth: int) -> list[Statement]:
        """Python's own loops, branches and conversions."""
        v, name = self.expression(scope, ("f", (6,))), self.name()
        text = self.draw.pick(
            (
                f"{name} = sum([{v}[i] for i in range(3)])",
                f"{name} = {v}.sum(axis=0) if len(a) > 4 else {v}.max()",
                f"{name} = float(np.arange(4)[2]) + {v}[0]",
                f"{name} = {v}[: abs(n)].sum()",
                f"{name} = np.zeros(abs(n) + 1).sum() + {v}[0]",
                f"{name} = sum([{v}[j] for j in range(abs(n) % 3)], {v}[0])",
                f"{name} = len(f'{{n}}') + {v}[0]",
                f"{name} = p.sum(axis=n % 2).sum()",
                f"{name} = max([{v}[0], {v}[1]], key=lambda e: 0)",
                f"{name} = {v}[0] if isinstance(a, np.ndarray) else {v}[1]",
                f"{name} = {v}.tolist()[0]",
                f"{name} = a.strides[0] + {v}[0]",
                f"{name} = {v}[0] if np.zeros(3).any() else {v}[1]",
            )
        )
        scope[name] = ("f", ())
        lines = [text]
        if self.draw.between(0, 5) == 0:
            catches = self.draw.pick(
                ("IndexError", "ValueError", "Exception", "FloatingPointError")
            )
            lines = [
                f"{name} = 0.0",
                "try:",
                f"    {text}",
                f"except {catches}:",
                f"    {name} = -1.0",
            ]
        return [Statement(lines)]

    # -- what data decides

    def selected(self, scope: dict[str, Type], depth: int) -> list[Statement]:
        v = self.array(scope, rank=1)
        kind, shape = scope[v]
        m = self.mask(scope, scope[v])
        text, type_ = self.draw.pick(
            (
                (f"{v}[{m}]", (kind, ("?",))),
                (f"{v}[{m}].sum()", (kind, ())),
                (f"{v}[{m}].max()", (kind, ())),
                (f"np.argmax({v}[{m}])", ("i", ())),
                (f"{v}[{m}][0]", (kind, ())),
                (f"{v}[{m}] * {v}[{m}]", (kind, ("?",))),
                (f"({v}[{m}] + {v}[::-1][{m}]).sum()", (kind, ())),
                (f"len({v}[{m}]) + 0", ("i", ())),
                (f"{v}[{m}].shape[0]", ("i", ())),
                (f"np.unique({v})", (kind, ("?",))),
                (f"np.nonzero({m})[0]", ("i", ("?",))),
                (f"np.unique({v}).size", ("i", ())),
                (f"np.where({m}, {v}, 0)", (kind, shape)),
                (f"np.sort({v}[{m}])", (kind, ("?",))),
                (f"np.flatnonzero({m}).sum()", ("i", ())),
                (f"{v}[np.nonzero({m})].min()", (kind, ())),
                (f"np.count_nonzero({m})", ("i", ())),
                (f"np.cumsum({v}[{m}])", ("f", ("?",))),
                (f"{v}[{m}].mean()", ("f", ())),
            )
        )
        if self.draw.between(0, 4) == 0:
            return [Statement([f"{v}[{m}] = {v}[{m}] + 1"])]
        return [self.named(scope, text, type_)]

    def window(self, scope: dict[str, Type], depth: int) -> list[Statement]:
        v = self.array(scope)
        kind, shape = scope[v]
        i, j, c = self.integer(scope), self.integer(scope), self.draw.between(1, 3)
        part = self.draw.pick(
            (
                f"{i}:{i} + {c}",
                f"{i}:",
                f":{i}",
                f"{i}:{j}",
                f"{i} - 1:{i} + {c}",
                f"{i}:{i} + {c}:2",
                f"{i}::-1",
            )
        )
        rest = shape[1:]
        if self.draw.between(0, 2) == 0:
            return [Statement([f"{v}[{part}] = {self.draw.pick(('1', self.scalar(scope, kind)))}"])]
        text, type_ = self.draw.pick(
            (
                (f"{v}[{part}]", (kind, ("?", *rest))),
                (f"{v}[{part}].sum(0)", ("f" if kind in "fgh" else "i", rest)),
                (f"{v}[{part}].shape[0]", ("i", ())),
                (f"{v}[{part}].max(axis=0)", (kind, rest)),
            )
        )
        return [self.named(scope, text, type_)]

    def indexed(self, scope: dict[str, Type], depth: int) -> list[Statement]:
        v = self.array(scope)
        kind, shape = scope[v]
        i = self.integer(scope)
        text, type_ = self.draw.pick(
            (
                (f"{v}[{i}]", (kind, shape[1:])),
                (f"{v}[k]", (kind, (4, *shape[1:]))),
                (f"{v}[I]", (kind, (4, *shape[1:]))),
                (f"np.take({v}, {i}, axis=0)", (kind, shape[1:])),
                (f"np.take({v}, k, axis=0, mode='wrap')", (kind, (4, *shape[1:]))),
                (f"{v}[[{i}, 0]]", (kind, (2, *shape[1:]))),
                (f"{v}[np.argsort({v}, axis=0)[0]]", (kind, shape[1:] * 2)),
                (f"{v}[-1]", (kind, shape[1:])),
            )
        )
        return [self.named(scope, text, type_)]

    # -- dtypes

    def narrow(self, scope: dict[str, Type], depth: int) -> list[Statement]:
        v = self.array(scope)
        w = self.array(scope)
        kind, shape = scope[v]
        cast = self.draw.pick([*DTYPES])
        text, type_ = self.draw.pick(
            (
                (f"{v}.astype('{DTYPES[cast]}')", (cast, shape)),
                (f"{v}.sum()", (kind, ())),
                (f"{v}.mean()", (kind, ())),
                (f"{v} + 1", (kind, shape)),
                (f"{v} * 2.5", (kind, shape)),
                (f"-{v}", (kind, shape)),
                (f"np.abs({v})", (kind, shape)),
                (f"{v} // 2", (kind, shape)),
                (f"{v} % 3", (kind, shape)),
                (f"{v} ** 2", (kind, shape)),
                (f"{v} / 2", (kind, shape)),
                (f"np.add.outer({v}, {w})", (kind, (*shape, *scope[w][1]))),
                (f"np.sqrt(np.abs({v}))", (kind, shape)),
                (f"np.prod({v})", (kind, ())),
                (f"np.cumsum({v})", (kind, ("?",))),
                (f"np.maximum({v}, 1)", (kind, shape)),
                (f"{v} == {v}", ("b", shape)),
                (f"np.linalg.norm({v})", ("f", ())),
                (f"np.average({v})", ("f", ())),
                (f"np.sign({v})", (kind, shape)),
                (f"np.conj({v})", (kind, shape)),
                (f"np.round({v})", (kind, shape)),
                # That of float16 is rounded, or overflows, in NumPy alone: see docs/tracing.md.
                (f"np.std({v} * np.float64(1))" if kind == "h" else f"np.std({v})", ("f", ())),
                (f"np.dot({v}.ravel(), {v}.ravel())", (kind, ())),
            )
        )
        return [self.named(scope, text, type_)]

    def library(self, scope: dict[str, Type], depth: int) -> list[Statement]:
        v, w = self.expression(scope, ("f", (6,))), self.expression(scope, ("f", (6,)))
        text, type_ = self.draw.pick(
            (
                (f"np.linalg.solve(np.eye(6) * 4 + np.outer({v}, {v}), {w})", ("f", (6,))),
                (f"np.linalg.inv(np.eye(6) + np.outer({v}, {v}))[0]", ("f", (6,))),
                (f"np.fft.fft({v}).real", ("f", (6,))),
                (f"np.sort({v})", ("f", (6,))),
                (f"np.argsort({v}, kind='stable')", ("i", (6,))),
                (f"np.searchsorted(np.sort({v}), {w})", ("i", (6,))),
                (f"np.convolve({v}, {w}, 'same')", ("f", (6,))),
                (f"np.interp({v}, R, {w})", ("f", (6,))),
                (f"np.einsum('i,i->', {v}, {w})", ("f", ())),
                (f"np.outer({v}, {w})", ("f", (6, 6))),
                (f"np.histogram({v}, bins=3, range=(-2, 2))[0]", ("i", (3,))),
                (f"np.median({v})", ("f", ())),
                (f"np.polyval([1, 2, 3], {v})", ("f", (6,))),
                (f"np.linalg.det(np.eye(6) + np.outer({v}, {w}))", ("f", ())),
                ("np.bincount(np.abs(k))", ("i", ("?",))),
                (f"np.diff({v})", ("f", (5,))),
                (f"np.clip({v}, -1, G)", ("f", (6,))),
                (f"np.tile({v}, 2)", ("f", (12,))),
            )
        )
        return [self.named(scope, text, type_)]

    # -- control flow

    def inner(
        self, scope: dict[str, Type], depth: int, given: dict[str, Type], results: list[Type]
    ) -> Group:
        """A body that sees ``scope``, and what a caller gives; returns values of these types."""
        inside = {**scope, **given}
        group = self.body(inside, self.draw.between(1, 2), depth + 1)
        values = [self.expression(inside, t) for t in results]
        text = values[0] if len(values) == 1 else f"({', '.join(values)})" if values else "None"
        group.statements.append(Statement([f"return {text}"]))
        return group

    def fori(self, scope: dict[str, Type], depth: int) -> list[Statement]:
        step, i, c = self.name("step"), self.name("i"), self.name("c")
        type_: Type = self.draw.pick((("f", ()), ("f", (6,)), ("i", ())))
        body = self.inner(scope, depth, {i: ("i", ()), c: type_}, [type_])
        count = self.draw.pick(("3", f"{self.integer(scope)} % 5", "len(a)"))
        start = self.expression(scope, type_)
        call = self.named(scope, f"lw.fori_loop(0, {count}, {step}, {start})", type_)
        return [Statement([f"def {step}({i}, {c}):", body, *call.parts])]

    def whiled(self, scope: dict[str, Type], depth: int) -> list[Statement]:
        step, c, type_ = self.name("step"), self.name("c"), ("f", ())
        inside = {c: ("i", ()), f"{c}v": type_}
        body = self.inner(scope, depth, inside, [type_])
        last = body.statements[-1].parts[0]
        assert isinstance(last, str)
        body.statements[-1] = Statement([f"return {c} + 1, {last.removeprefix('return ')}"])
        body.statements.insert(0, Statement([f"{c}, {c}v = {c}"]))
        call = self.named(
            scope,
            f"lw.while_loop(lambda c: c[0] < 3, {step}, (0, {self.scalar(scope, 'f')}))[1]",
            type_,
        )
        return [Statement([f"def {step}({c}):", body, *call.parts])]

    def cond(self, scope: dict[str, Type], depth: int) -> list[Statement]:
        then, orelse, type_ = self.name("then"), self.name("orelse"), ("f", (6,))
        one, two = (self.inner(scope, depth, {}, [type_]) for _ in range(2))
        test = f"{self.scalar(scope, 'f')} > {self.scalar(scope, 'f')}"
        call = self.named(scope, f"lw.cond({test}, {then}, {orelse})", type_)
        return [Statement([f"def {then}():", one, f"def {orelse}():", two, *call.parts])]

    def switch(self, scope: dict[str, Type], depth: int) -> list[Statement]:
        names = [self.name("case") for _ in range(3)]
        parts: list[str | Group] = []
        for name in names:
            parts += [f"def {name}():", self.inner(scope, depth, {}, [("f", ())])]
        text = f"lw.switch({self.integer(scope)} % 3, [{', '.join(names)}])"
        return [Statement([*parts, *self.named(scope, text, ("f", ())).parts])]

    def scan(self, scope: dict[str, Type], depth: int) -> list[Statement]:
        step, c, y = self.name("step"), self.name("c"), self.name("y")
        type_: Type = ("f", ())
        body = self.inner(scope, depth, {c: type_, y: ("f", ())}, [type_, type_])
        name = self.name()
        start, rows = self.scalar(scope, "f"), self.expression(scope, ("f", (6,)))
        scope[name], scope[f"{name}s"] = type_, ("f", (6,))
        call = f"{name}, {name}s = lw.scan({step}, {start}, {rows})"
        return [Statement([f"def {step}({c}, {y}):", body, call])]

    def mapped(self, scope: dict[str, Type], depth: int) -> list[Statement]:
        step, y = self.name("each"), self.name("y")
        body = self.inner(scope, depth, {y: ("f", ())}, [("f", ())])
        rows = self.expression(scope, ("f", (6,)))
        call = self.named(scope, f"lw.map({step}, {rows})", ("f", (6,)))
        return [Statement([f"def {step}({y}):", body, *call.parts])]

    def function(self, scope: dict[str, Type], depth: int) -> list[Statement]:
        f, left, v = self.name("f"), self.name("left"), self.name("x")
        body = self.inner(scope, depth, {left: ("i", ()), v: ("f", ())}, [("f", ())])
        last = body.statements[-1].parts[0]
        assert isinstance(last, str)
        value = last.removeprefix("return ")
        again = (
            f"return lw.cond({left} > 0, lambda: {f}({left} - 1, {value} * 0.5), lambda: {v} + 1.0)"
        )
        body.statements[-1] = Statement([again])
        call = f"{f}({self.integer(scope)} % 4, {self.scalar(scope, 'f')})"
        return [
            Statement(
                [
                    "@lw.function",
                    f"def {f}({left}, {v}):",
                    body,
                    *self.named(scope, call, ("f", ())).parts,
                ]
            )
        ]

    # -- expressions

    def array(self, scope: dict[str, Type], rank: int = 0) -> str:
        fits = [n for n, (_, s) in scope.items() if (len(s) == rank if rank else s)]
        return fits[-1] if self.draw.between(0, 1) else self.draw.pick(fits)

    def mask(self, scope: dict[str, Type], type_: Type) -> str:
        kind, shape = type_
        same = [n for n, t in scope.items() if t == type_]
        v = self.draw.pick(same) if same else "a"
        if kind == "c":
            return f"({v}.real > 0)"
        masks = [n for n, t in scope.items() if t == ("b", shape)]
        return self.draw.pick([f"({v} > 0)", f"({v} > 100)", f"({v} == {v})", *masks])

    def integer(self, scope: dict[str, Type]) -> str:
        names = [n for n, t in scope.items() if t == ("i", ())]
        return self.draw.pick([*names, *names, f"({names[-1]} - 1)", f"({names[0]} + 2)", "k[0]"])

    def scalar(self, scope: dict[str, Type], kind: str) -> str:
        names = [n for n, t in scope.items() if t == (kind, ())]
        constant = {"i": "3", "b": "True", "c": "1j", "u": "7", "s": "5"}.get(kind, "0.5")
        more = ["x", "a[0]", "G"] if kind in "fgh" else []
        return self.draw.pick([*names, constant, *more])

    def expression(self, scope: dict[str, Type], type_: Type) -> str:
        kind, shape = type_
        if not shape:
            v, w = self.scalar(scope, kind), self.scalar(scope, kind)
            if kind not in "fi":
                return v
            return self.draw.pick((v, f"({v} + {w})", f"({v} * {w})", f"np.minimum({v}, {w})"))
        names = [n for n, t in scope.items() if t == type_]
        if not names:
            sizes = tuple(3 if n == "?" else n for n in shape)
            return f"np.full({sizes}, 1, '{DTYPES[kind]}')"
        v = names[-1] if self.draw.between(0, 1) else self.draw.pick(names)
        w = self.draw.pick(names)
        choices = [v, v, f"({v} + {w})", f"np.maximum({v}, 1)", f"{v}[::-1]"]
        if kind in "fi":
            choices += [f"({v} * {self.scalar(scope, kind)})", f"({v} - {w})"]
        if kind == "f" and len(shape) == 1:
            choices += [
                f"np.where({v} > 0, {v}, {w})",
                f"np.minimum({v}, {self.scalar(scope, 'f')})",
            ]
        return self.draw.pick(choices)


def draw_python(draw: Draw, most: int = 5) -> Program:
    """Returns a program of up to ``most`` statements, each of which may have bodies of its own."""
    return Writer(draw).program(most)
