from ...given.shapes import check_number, check_shapes


def checked(rewards, values, dones, gamma):
    check_shapes(rewards=(rewards, "... T"), values=(values, "... T+1"), dones=(dones, "... T"))
    check_number("T, the number of steps", rewards.shape[-1], 1)
    check_number("gamma", gamma, 0.0, 1.0)
