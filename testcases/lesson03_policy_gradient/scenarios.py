"""Lesson 3 through what a caller does with the answer."""


def rewards_after_the_answer_is_overwritten(lesson, rewards, mask, gamma):
    """They are what they were, if the answer is a tensor of its own."""
    rewards = rewards.clone()
    lesson.rewards_to_go(rewards, mask, gamma).fill_(-1)
    return rewards
