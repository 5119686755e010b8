"""Operators that are made of simpler ones: each record has an `expansion`."""
