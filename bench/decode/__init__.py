"""A token of GPT-2 small at a context of any length, beside the memory's limit and beside others.

limit      measured bandwidth, and the bytes that a token has to read
peers      who runs it: ours, torch and ONNX Runtime, all with a cache of keys and values
worker     the process of one peer
__main__   the command
"""
