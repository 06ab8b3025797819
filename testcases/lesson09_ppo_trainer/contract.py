"""Lesson 9: what contract_test.py asks of its exercises; a constant that is missing asks nothing."""

from testcases.harness.doubles.drawing import normal
from testcases.harness.suite.asserts import scenario
from tutorial.lesson09_ppo_trainer import PPOTrainer

AGREEMENT = {
    PPOTrainer.generate_responses: 1,
    PPOTrainer.compute_rewards: 1,
    PPOTrainer.load_checkpoint: 1,
    PPOTrainer.save_checkpoint: 1,
    PPOTrainer.train: 1,
}
REFUSALS = {
    scenario("update_of", of=PPOTrainer.training_step): (
        {"actor": normal(5, 5), "critic": normal(5)},
        {"no-prompts": ({"prompts": ()}, ["at least one prompt"])},
    ),
    scenario("responses_of", of=PPOTrainer.generate_responses): (
        {"actor": normal(5, 5), "critic": normal(5)},
        {"no-prompts": ({"prompts": ()}, ["at least one prompt"])},
    ),
    scenario("run_of", of=PPOTrainer.train): (
        {"num_updates": 2},
        {"no-prompts": ({"available": 0}, ["at least one prompt"])},
    ),
    scenario("loaded_of", of=PPOTrainer.load_checkpoint): (
        {"mark": 1.0},
        {
            "cut-off": ({"content": "cut off"}, ["whole"]),
            "empty": ({"content": "empty"}, ["whole"]),
            "of-other-settings": ({"content": "of other settings"}, ["settings, got kl_coef 0.9"]),
        },
    ),
}
