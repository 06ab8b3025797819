"""Lesson 9: the tests that are the same for every exercise; the engine makes them."""

from testcases.engine.contract_tests import contract_tests
from tutorial.lesson09_ppo_trainer import PPOTrainer

contract_tests(
    globals(),
    agreement={
        PPOTrainer.compute_rewards: 1,
        PPOTrainer.generate_responses: 1,
        PPOTrainer.load_checkpoint: 1,
        PPOTrainer.save_checkpoint: 1,
        PPOTrainer.train: 1,
    },
)
