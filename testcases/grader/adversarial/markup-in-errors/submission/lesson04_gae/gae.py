import torch


def td_errors(rewards, values, dones, gamma=0.99):
    raise RuntimeError('<script>alert(1)</script> [bold red]x[/] \x1b[2J\x1b]0;pwned\x07 =HYPERLINK(1)')
