"""Kernels for the processor that work graph by graph: compiled on first use, called through ctypes."""
