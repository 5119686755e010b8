"""What passes are made of: each pass in `compiler/passes` is a door to one of these."""
