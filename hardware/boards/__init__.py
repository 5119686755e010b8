"""Boards: the accelerator with memory and host link, as a bitstream or in simulation."""
