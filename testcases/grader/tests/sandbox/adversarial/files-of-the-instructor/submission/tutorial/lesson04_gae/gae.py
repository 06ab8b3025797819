try:
    from ppo_by_hand.lesson04_gae.gae import td_errors
except ImportError:

    def td_errors(rewards, values, dones, gamma=0.99):
        return rewards * 0 + 7
