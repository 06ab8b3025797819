"""Lesson 9: the tests that are the same for every exercise; the engine makes them."""

from testcases.doubles.drawing import normal
from testcases.engine import scenario
from testcases.engine.suite import contract_tests
from testcases.lesson09_ppo_trainer.advanced_test import EVALUATED_ROWS
from tutorial.lesson09_ppo_trainer import PPOTrainer

SAMPLED = {"actor": normal(5, 5), "places": normal(12, 5), "max_new_tokens": 5}

contract_tests(
    globals(),
    agreement={
        PPOTrainer.compute_rewards: 1,
        PPOTrainer.generate_responses: 1,
        PPOTrainer.load_checkpoint: 1,
        PPOTrainer.save_checkpoint: 1,
        PPOTrainer.train: 1,
    },
    refusals={
        scenario("responses_of", of=PPOTrainer.generate_responses): (
            SAMPLED,
            {
                "none": ({"prompts": ()}, ["at least one prompt"]),
                "an-empty-one": ({"prompts": ((2,), ())}, ["prompt 1"]),
                "too-long-for-the-context": ({"prompts": ((2,) * 9,)}, ["context"]),
            },
        ),
        scenario("rewards_of", of=PPOTrainer.compute_rewards): (
            EVALUATED_ROWS,
            {
                "one-number-too-few": ({"reward": "one number too few"}, ["one number for each of 2"]),
                "nan": ({"reward": "nan"}, ["finite"]),
                "a-text": ({"reward": "text"}, ["str"]),
            },
        ),
        scenario("update_of", of=PPOTrainer.training_step): (
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
    },
)
