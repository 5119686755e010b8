"""Control to native code: one library for a whole program, with its heap."""
