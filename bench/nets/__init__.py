"""Networks that others wrote, through ONNX and through torch, beside what runs them today."""
