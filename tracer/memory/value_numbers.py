"""Value numbering: which traced values are certainly equal, such as ``x > 0`` written twice.

Sizes that data decides are told apart by what they count (``data_sizes``), chosen elements by the
values that choose them (``integer_ranges.as_dim``). A write gives an array another number.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from ...ir.dims import IntExpr
from ...ir.graph.nodes import Atom
from ...ir.graph.operator import OPERATORS
from ...ir.graph.printer import value_text
from ...ir.graph.types import TensorType
from ...ir.traits import Trait

if TYPE_CHECKING:
    from ...ir.dim_proofs import Fact

Definition: TypeAlias = "tuple[str, tuple[Atom, ...], Mapping[str, Any]]"
"""The operator that an atom is the result of, its operands and its attributes."""


class ValueNumbers:
    """Definitions of atoms, and numbers that are the same for the same operator of the same values.

    Every operator is a function of its operands; what has no definition is a value of its own.
    """

    def __init__(self) -> None:
        self.definitions: dict[Atom, Definition] = {}
        self.extents: dict[Atom, Atom] = {}  # of the loops that atoms count
        self.dims: dict[Atom, IntExpr] = {}  # integers as expressions (see ``ranges``)
        self.ranges: dict[str, tuple[IntExpr, IntExpr]] = {}  # of the names in them
        self.facts: list[Fact] = []  # relations of such expressions where the trace is
        self.open: list[Fact] = []  # those that were asked for and not proved
        self._by_atom: dict[Atom, int] = {}
        self._by_key: dict[Hashable, int] = {}
        self._kept: list[Atom] = []  # keys may have the identity of an array

    def define(
        self, atom: Atom, name: str, args: tuple[Atom, ...], attrs: Mapping[str, Any]
    ) -> None:
        self.definitions[atom] = name, args, attrs

    def number(self, atom: Atom) -> int:
        """The number of a value."""
        work = [atom]
        while work:
            each = work[-1]
            if each in self._by_atom:
                work.pop()
                continue
            definition = self._canonical(each)
            missing = [a for a in definition[1] if a not in self._by_atom] if definition else []
            if missing:
                work += missing
                continue
            self._by_atom[work.pop()] = self._numbered(each, definition)
        return self._by_atom[atom]

    def _numbered(self, atom: Atom, definition: Definition | None) -> int:
        from ...ir.graph.structural import atom_key  # loaded when it is first needed

        key: Hashable = atom_key(atom)
        if definition is not None:
            name, args, attrs = definition
            texts = tuple(f"{key}={value_text(value)}" for key, value in attrs.items())
            key = name, texts, tuple(self._by_atom[a] for a in args)
        self._kept.append(atom)
        return self._by_key.setdefault(key, len(self._by_key))

    def _canonical(self, atom: Atom) -> Definition | None:
        """The definition of an atom, in one of the ways of writing it: masks have several."""
        definition = self.definitions.get(atom)
        if definition is None or not _is_bool(definition[1][0] if definition[1] else atom):
            return definition
        is_not = definition[0] == "bitwise_not"
        return ("logical_not", definition[1], {}) if is_not else definition

    def unmoved(self, atom: Atom) -> Atom:
        """The array that ``atom`` has the elements of, in whatever order and shape."""
        definition = self.definitions.get(atom)
        while definition is not None and Trait.REARRANGES in OPERATORS[definition[0]].traits:
            atom = definition[1][0]
            definition = self.definitions.get(atom)
        return atom

    def counted_mask(self, atom: Atom) -> Atom | None:
        """The mask of which ``atom`` is the number of elements that are True; None for others."""
        definition = self.definitions.get(atom)
        if definition is None or definition[0] != "sum":
            return None
        mask: Atom = definition[1][0]
        assert isinstance(atom.type, TensorType) and isinstance(mask.type, TensorType)
        inner = self.definitions.get(mask)
        if inner is not None and inner[0] == "cast":
            mask = inner[1][0]
        return self.unmoved(mask) if atom.type.size == 1 and _is_bool(mask) else None


def _is_bool(atom: Atom) -> bool:
    return isinstance(atom.type, TensorType) and atom.type.dtype.is_bool
