"""What the notebooks run, if it is too long for a cell: one module per lesson. The drawing is in `figures`."""
