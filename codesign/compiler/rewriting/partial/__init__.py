"""Partial evaluation: what is known when a program is compiled happens then."""
