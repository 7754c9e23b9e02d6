"""From loop nests to LLVM text.

``indices`` writes the arithmetic of loop variables, ``scalars`` knows what an operator is in
instructions, ``memory`` how elements are addressed, ``registers`` which lanes of
a buffer in SSA values an access means, ``values`` how an expression is computed, ``writes``
how its value is stored, ``nests`` what each statement says, ``parallel`` how a loop is handed to
the threads.
"""
