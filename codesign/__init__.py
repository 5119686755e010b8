"""Hardware-accelerator co-design: a Relay compiler, a tensor accelerator, its RTL and simulators."""
