"""The gate on trial: kernels that were broken on purpose are refused, right ones are accepted.

::

    programs   small functions of every family, and the PrimFuncs they become
    mutants    one mistake of a given kind, put into a loop nest
    trial      both through the processes that measure candidates, counted

``python -m bench.gate`` runs all of it.
"""
