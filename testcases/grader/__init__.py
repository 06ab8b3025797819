"""`make check`: grade the working tree, or a folder of submissions whose code nobody has read."""
