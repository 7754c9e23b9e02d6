"""From loop nests to LLVM text.

``writer`` writes one function with value numbering and code motion built in, ``scalars`` knows what
an operator is in instructions, ``memory`` how elements are addressed, ``registers`` which lanes of
a buffer in SSA values an access means, ``values`` how an expression is computed, ``writes``
how its value is stored, ``nests`` what each statement says, ``parallel`` how a loop is handed to
the threads.
"""
