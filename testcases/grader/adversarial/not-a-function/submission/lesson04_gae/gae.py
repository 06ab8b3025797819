td_errors = 3
