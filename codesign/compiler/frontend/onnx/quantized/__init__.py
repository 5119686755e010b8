"""ONNX graphs that are quantized already, kept to the bit: see docs/numbers.md."""
