"""One spelling for all libraries: what workloads may use, in each library's words.

Arrays of every namespace understand ``+ - * /`` and unary minus. Images are NCHW, kernels OIHW.
``of_numpy`` defines what each name means; the others say the same to their library, the way its
users get the best of it.
"""
