"""PyTorch: graphs of ATen operators become modules.

::

    table       one row per overload of an operator; rows/ has them by family
    tensors     tensors as arrays and back
    importer    a walk over an FX graph on a trace
    exported    torch.export: a module and its example arguments, with weights as constants
    nodes       nodes of FX graphs: tensors, views, places in the source
    partitions  graphs in parts: compiled ones, around what PyTorch runs
    dynamo      torch.compile: forward and backward graphs by aot_autograd
"""
