"""The drawings of the lesson texts: one module for each text, each function one SVG. `make figures` writes them."""
