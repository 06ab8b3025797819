"""The right answer: the reference and what it remembers, its named mutations, the stubs made from it."""
