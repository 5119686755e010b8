"""The road: one network in fp32, in int8 and on the accelerator, every answer compared."""
