"""The accelerator backend: an int8 region to a program."""
