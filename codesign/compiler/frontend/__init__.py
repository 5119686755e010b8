"""Doors through which programs come in."""
