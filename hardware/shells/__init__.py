"""What stands around the accelerator on a board: serial line, host bridge, memory."""
