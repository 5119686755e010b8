"""First-order control: functions of blocks, between Relay and native code."""
