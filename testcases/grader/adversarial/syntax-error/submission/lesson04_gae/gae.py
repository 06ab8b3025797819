def td_errors(:
