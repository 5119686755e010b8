"""What bits of values and of sums cost in accuracy, and bring in time, on the CPU."""
