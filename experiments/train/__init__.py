"""Networks that are trained in Relay: loss, gradient and optimizer are one compiled program."""
