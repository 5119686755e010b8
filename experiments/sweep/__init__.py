"""Sweeps: networks x configurations x targets from one TOML file, into one table."""
