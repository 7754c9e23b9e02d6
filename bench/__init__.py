"""Compares Loopwright with its peers in one run: ``make bench``, or ``python -m bench.run --help``.

``workloads`` says what is computed, ``namespaces`` how each library spells it, ``worker`` is the
process of one library, ``run`` runs the workers alternately and ``report`` writes what came out.
"""
