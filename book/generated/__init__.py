"""Pages of the book that are made from texts, docstrings and code when it is built."""
