"""Fusion: the parts of the pass ``fuse_operators``, which groups operators into kernels.

- ``graph``  the operators of a block with index maps folded into the edges
- ``groups`` groups of operators that stay free of cycles, and post-dominators
- ``rules``  which two groups may become one, and the choice points: where two groups may be fused
  or apart; ``attention`` as one group
- ``emit``   long chains of cheap operators cut where few values are alive, the operands of a group,
  the groups as functions, and the block that calls them
- ``to_prim``  a group lowered to a PrimFunc
"""
