"""Passes over graph modules: each is a function ``Module -> Module`` in a file of its own.

A file here that holds a function of its own name is a pass. Its docstring is an example, the text
before and after, which a test finds by listing this folder and runs. ``graph/pipeline.py`` says in
which order passes run, ``ir/pass_context.py`` runs them. A pass that finds nothing to do returns
its argument.
"""
