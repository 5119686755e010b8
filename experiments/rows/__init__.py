"""Promised figures, each measured afresh by `make show ROW=name`."""
