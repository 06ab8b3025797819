"""Lesson 9: what contract_test.py asks of its exercises; a constant that is missing asks nothing."""

from testcases.harness.doubles.drawing import normal
from testcases.harness.suite.asserts import scenario
from tutorial.lesson09_ppo_trainer import PPOTrainer

AGREEMENT = {PPOTrainer.compute_loss: 6, PPOTrainer.train: 3}
TABLES = {"actor": normal(5, 5), "critic": normal(5)}
NO_PROMPTS = {"no-prompts": ({"prompts": ()}, ["at least one prompt"])}
REFUSALS = {
    scenario("update_of", of=PPOTrainer.training_step): (TABLES, NO_PROMPTS),
    scenario("responses_of", of=PPOTrainer.generate_responses): (TABLES, NO_PROMPTS),
    scenario("run_of", of=PPOTrainer.train): (
        {"num_updates": 2},
        {"no-prompts": ({"available": 0}, ["at least one prompt"])},
    ),
    scenario("loaded_of", of=PPOTrainer.load_checkpoint): (
        {"mark": 1.0},
        {
            "cut-off": ({"content": "cut off"}, ["whole"]),
            "of-other-settings": ({"content": "of other settings"}, ["settings, got kl_coef 0.9"]),
            "of-another-shape": ({"content": "5 wide"}, ["(5, 5)"]),
            "of-other-names": ({"content": "of other names"}, []),
        },
    ),
}
