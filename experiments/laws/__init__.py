"""Laws of the language, and random well-typed programs to judge them with."""
