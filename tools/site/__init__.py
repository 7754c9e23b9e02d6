"""The site: pages of docs/ and of the root, and a reference made from docstrings.

``hooks`` is what mkdocs runs (mkdocs.yml), ``reference`` writes the pages of the API.
"""
