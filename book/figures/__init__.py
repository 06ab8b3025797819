"""The drawings of the lesson texts: one module for each text, each of its FIGURES one SVG. `make figures` writes them.
The texts themselves say what is to be seen on them.

Here are the colors of all figures, of texts and notebooks: Okabe and Ito's, which color-blind readers can tell apart.
"""

PALETTE = BLUE, ORANGE, GREEN, PINK, YELLOW, SKY = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"
"""The first four are for lines on a light and on a dark page; the last two are too pale for a line on a white one."""
INK, RULE = "#1f2328", "#8b949e"
"""For type, and for lines beside the subject."""
