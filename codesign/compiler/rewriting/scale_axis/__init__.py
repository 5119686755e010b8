"""Scales by channel, and the weights that absorb them."""
