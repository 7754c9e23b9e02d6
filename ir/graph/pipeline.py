"""The passes over graph modules, in the order in which they run."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import TypeAlias

from ..pass_context import Language
from .choices import Choices
from .nodes import Function, Module
from .passes.apply_requirements import apply_requirements
from .passes.batch_while_loops import batch_while_loops
from .passes.choose_algorithms import DEFAULT_PREFERENCES, Preferences, choose_algorithms
from .passes.contract_codes import contract_codes
from .passes.eliminate_common_subexpressions import eliminate_common_subexpressions
from .passes.eliminate_dead_code import eliminate_dead_code
from .passes.evaluate_partially import evaluate_partially
from .passes.fold_branches import fold_branches
from .passes.fold_constants import fold_constants
from .passes.fold_scales import fold_scales
from .passes.fuse_operators import fuse_operators
from .passes.hoist_invariants import hoist_invariants
from .passes.hoist_products import hoist_products
from .passes.inline_calls import inline_calls
from .passes.lower_to_primitives import lower_to_primitives
from .passes.merge_mutual_recursion import merge_mutual_recursion
from .passes.multiply_integers import multiply_integers
from .passes.narrow_factors import narrow_factors
from .passes.pull_picks import pull_picks
from .passes.read_updates import read_updates
from .passes.reduce_carries import reduce_carries
from .passes.reduce_chosen import reduce_chosen
from .passes.repeat_maps import repeat_maps
from .passes.round_factors import round_factors
from .passes.select_few import select_few
from .passes.share_groups import share_groups
from .passes.simplify import simplify
from .passes.sink_casts import sink_casts
from .passes.sink_dequantising import sink_dequantising
from .passes.sink_picks import sink_picks
from .passes.sink_transposes import sink_transposes
from .passes.split_complex import split_complex
from .passes.split_stacks import split_stacks
from .passes.tabulate_bytes import tabulate_bytes
from .passes.tail_calls_to_loops import tail_calls_to_loops
from .passes.unroll_loops import unroll_loops
from .passes.update_carries import update_carries
from .passes.vectorise_loops import vectorise_loops
from .passes.while_to_for import while_to_for
from .passes.widen_halves import widen_halves
from .printer import as_text
from .requirements import assuming
from .verify import verify

Pass: TypeAlias = Callable[[Module], Module]


def _assuming(module: Module) -> AbstractContextManager[None]:
    """Takes for granted what functions require of their sizes: it holds in every call."""
    functions = (f for f in module.functions.values() if isinstance(f, Function))
    return assuming(r for f in functions for r in f.requirements)


GRAPH: Language[Module] = Language("graph", as_text, verify, _assuming)


def default_pipeline(
    preferences: Preferences = DEFAULT_PREFERENCES, choices: Choices | None = None
) -> list[Pass]:
    """Returns the way from a traced module to groups of operators that become kernels.

    ``preferences`` say which of several algorithms for one operator may be chosen, ``choices`` what
    was measured to be faster where passes could do one thing or another.
    """
    limits = preferences.limits
    fold = partial(fold_constants, limits=limits)
    return [
        # Sizes that are equal are written alike, which all type rules rely on.
        apply_requirements,
        # No other pass knows complex numbers.
        split_complex,
        # So that all the others see through calls.
        inline_calls,
        # Rules below know arithmetic in the dtype that is computed with.
        widen_halves,
        # Before contractions of bytes are made, which see what they are made of.
        sink_dequantising,
        # Bytes are quantised here, and what is between them is not yet a part of contractions.
        partial(tabulate_bytes, limits=limits),
        # Before constants fold: weights stay bytes.
        partial(multiply_integers, limits=limits),
        # What is written to an array is computed in the kernel that writes it. No rule has joined
        # it with what reads it yet.
        read_updates,
        # Whole operators (softmax, layer_norm) are still visible to the rules.
        simplify,
        # Orders are still one operator.
        select_few,
        # Scales are not multiplied with the weights yet, which folding does.
        contract_codes,
        fold,
        # Conditions are known, if they ever are.
        fold_branches,
        eliminate_dead_code,
        # What calls itself goes where its arguments are known, or becomes a loop; what then calls
        # itself no longer is inlined, too.
        merge_mutual_recursion,
        evaluate_partially,
        tail_calls_to_loops,
        inline_calls,
        # What decides whether a loop goes on was a branch in its function.
        fold_branches,
        # What a loop does not change is the same in all iterations, and may be a constant.
        reduce_carries,
        # What a counter is compared with is not carried any more.
        while_to_for,
        # Stacks are one operator still, and what a loop carries is what it needs.
        split_stacks,
        # Weights are constants now, if they ever are; batch normalisations are still one operator.
        fold_scales,
        # Weights are what they will be, and no convolution has its algorithm: the rounded have one.
        partial(round_factors, enabled=preferences.rounds_factors, flush=limits.has_pairs),
        partial(choose_algorithms, preferences=preferences, choices=choices),
        # From here on there are only primitives.
        partial(lower_to_primitives, limits=limits),
        # Means are sums now.
        reduce_chosen,
        # Convolutions come out of it with transposes around them, which keep neighbours apart.
        partial(sink_transposes, choices=choices),
        # What is transposed and padded for a product is as short as its factors.
        sink_casts,
        # Lowering writes the same pieces again and again (a mean and a variance of one array), and
        # computes with constants, such as reshaped weights. Rules find more among shared values.
        eliminate_common_subexpressions,
        # Whatever lowering made of weights that are no constants is in sight.
        partial(hoist_invariants, limits=limits),
        # All operators have forms for many rows, and weights of loops stand before them.
        vectorise_loops,
        # Loops of scalars in what is left of maps.
        partial(batch_while_loops, choices=choices, limits=limits),
        # Loops that are left and short. What each iteration picks of constants folds below.
        unroll_loops,
        # Values are shared, so that what is picked twice is pulled once.
        pull_picks,
        # Rows that loops take are picked from what they are; weights fold after it.
        partial(hoist_products, choices=choices, limits=limits),
        simplify,
        fold,
        eliminate_common_subexpressions,
        # Weights are what they will be, and what multiplies them is in sight.
        partial(narrow_factors, limits=limits),
        # What of an array a loop writes at fixed places stays a kernel of its own.
        update_carries,
        # Equal rows are shared, and no kernel reaches over the edge of a block.
        sink_picks,
        # Maps are what they will be: fusion would store those that several reductions read.
        partial(repeat_maps, limits=limits),
        # Fusion counts users and needs each of its groups to be used, so dead code has to be gone.
        eliminate_dead_code,
        partial(fuse_operators, choices=choices, limits=limits),
        # What ended up in a kernel of its own, and does not depend on the program's arguments.
        fold,
        eliminate_dead_code,
        # No group is folded away any more.
        share_groups,
    ]
