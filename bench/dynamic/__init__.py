"""One compile for every size, beside one compile per size and beside what others do.

programs    what is measured: functions, their symbolic axes, the sizes they are tried at
torch_side  the same programs in torch, from which the ONNX models come as well
peers       who runs them: ours dynamic or for one size, tuned or not, and the others
worker      the process of one peer
table       rows, and which bars they meet
__main__    the command
"""
