"""Steps that are taken many times: cells out of recursive programs, run side by side."""
