"""Remove bindings whose value nobody uses, and functions nobody calls.

Before::

    def @main(%x: Tensor[(4), float32]) -> Tensor[(4), float32] {
      %0 = exp(%x);
      %1 = negative(%0);
      sqrt(%x)
    }

    def @unused(%x: Tensor[(4), float32]) -> Tensor[(4), float32] {
      %x
    }

After::

    def @main(%x: Tensor[(4), float32]) -> Tensor[(4), float32] {
      sqrt(%x)
    }

The language is pure, so a value without users has no effect.
"""

from __future__ import annotations

from ..nodes import Atom, Binding, Block, Expr, Function, Module, Var
from ..walk import global_variables, map_functions, nested_blocks, operands, with_nested_blocks

__all__ = ["eliminate_dead_code", "without_dead_code"]


def eliminate_dead_code(module: Module) -> Module:
    """Keeps what the results need. Functions go only if there is a ``main`` to say what is used."""
    module = map_functions(module, without_dead_code)
    if "main" not in module.functions:
        return module
    reached = {"main"}
    work = ["main"]
    while work:
        function = module.functions.get(work.pop())
        if isinstance(function, Function):
            new = global_variables(function).keys() - reached
            reached |= new
            work += new
    if reached >= module.functions.keys():
        return module
    return module.with_functions({n: f for n, f in module.functions.items() if n in reached})


def without_dead_code(function: Function) -> Function:
    """``function`` with only the bindings its result needs."""
    return function.with_body(_live_block(function.body, set()))


def _live_block(block: Block, live: set[Var]) -> Block:
    """Walk backwards; ``live`` gathers every variable that something kept uses."""
    kept: list[Binding] = []
    _use((block.result,), live)
    for binding in reversed(block.bindings):
        if binding.var not in live:
            continue
        value = _live_expr(binding.value, live)
        _use(operands(value), live)
        kept.append(binding if value is binding.value else Binding(binding.var, value))
    kept.reverse()
    if len(kept) == len(block.bindings) and all(a is b for a, b in zip(kept, block.bindings)):
        return block
    return Block(tuple(kept), block.result)


def _live_expr(value: Expr, live: set[Var]) -> Expr:
    return with_nested_blocks(value, [_live_block(block, live) for block in nested_blocks(value)])


def _use(atoms: tuple[Atom, ...], live: set[Var]) -> None:
    live.update(a for a in atoms if isinstance(a, Var))
