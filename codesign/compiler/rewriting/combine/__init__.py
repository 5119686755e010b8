"""Calls that read one tensor become one call, and their results its parts."""
