"""Found in `solutions/contest`, not copied: the methods of the field side by side, here on your own lessons."""

from solutions.contest import __path__ as __path__
