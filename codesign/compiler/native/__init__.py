"""Relay to first-order control: closures, matches, regions of operators, ownership."""
