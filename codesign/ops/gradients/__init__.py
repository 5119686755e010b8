"""Gradient rules: what flows back from an operator's result to its arguments, as Relay."""
