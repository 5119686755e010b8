"""Kernels for many threads in step: what runs on a GPU, and what its executor checks."""
