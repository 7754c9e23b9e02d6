"""Which operators become one kernel: the parts of the pass ``fuse_operators``.

- ``graph``            the operators of a block, with index maps folded into the edges
- ``post_dominators``  where all ways from an operator meet again
- ``rules``            which two groups may become one
- ``chain``            attention: two products with a softmax between them, as one group
- ``segments``         long chains of cheap operators, cut where few values are alive
- ``order``            the groups, kept free of cycles
- ``sites``            the choice points: where two groups may be one or apart
- ``operands``         which ways of reading an array are operands of their own
- ``emit``             the groups as functions, and the block that calls them
"""
