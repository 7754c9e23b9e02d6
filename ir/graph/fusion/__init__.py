"""Fusion: the parts of the pass ``fuse_operators``, which groups operators into kernels.

- ``graph``  the operators of a block with index maps folded into the edges, their post-dominators,
  and groups of them that stay free of cycles
- ``rules``  which two groups may become one, attention as one group, and the choice points: where
  two groups may be fused or apart
- ``emit``   long chains of cheap operators cut where few values are alive, the operands of a group,
  the groups as functions, and the block that calls them
"""
