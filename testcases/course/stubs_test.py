"""The two trees: `tutorial/` is what the solutions say, and each solution keeps the contract."""

import importlib
from pathlib import Path

import pytest

from testcases.course.stubs import drift
from testcases.harness.catalog import lesson_names, read_lesson
from testcases.harness.oracle.mutations import all_stubs, write_files

CONTRACT = {
    1: "gather_log_probs response_log_probs token_entropy masked_mean masked_whiten first_true_index response_mask "
    "truncate_after_stop position_ids",
    2: "last_token_index RewardModel pairwise_loss ranking_loss token_pairwise_loss preference_accuracy "
    "calibrate train_reward_model",
    3: "rewards_to_go leave_one_out_baseline reinforce_loss",
    4: "td_errors n_step_advantages compute_gae compute_response_gae",
    5: "compute_ppo_loss compute_value_loss combine_losses ppo_statistics compute_kl_penalty_loss update_beta",
    6: "estimate_kl compute_rewards penalize_missing_stop FixedKLController AdaptiveKLController",
    7: "ValueModel PolicyAndValue critic_from_reward_model make_reference freeze reference_mode",
    8: "sample_token generate Generation Experience ExperienceBuffer collect_experience",
    9: "PPOConfig PPOTrainer",
    10: "credit_packed pessimistic_gain bounded_error merge_moments sampled_drift read_prompts sum_in_groups "
    "label_replies train_chain train_bandit train_sliced train_contexts",
    11: "plan_microbatches gradient_weight global_masked_whiten keep_reference_adapter DistributedPPOTrainer",
}
"""The names that design.md promises."""


def test_drift_is_seen(tmp_path: Path):
    copy = tmp_path / "tutorial"
    write_files(copy, all_stubs())
    assert drift(copy) == []
    gae = copy / "lesson04_gae" / "gae.py"
    gae.write_text(gae.read_text("utf-8").replace("gamma: float = 0.99", "gamma: float = 0.9"), "utf-8")
    (copy / "lesson04_gae" / "notes.txt").write_text("mine", "utf-8")
    (copy / "demo/__init__.py").unlink()
    (copy / "lesson04_gae" / "README.md").write_text("# Texts belong here", "utf-8")
    assert sorted(drift(copy)) == [
        "differs from its solution: tutorial/lesson04_gae/gae.py",
        "missing: tutorial/demo/__init__.py",
        "stray: tutorial/lesson04_gae/notes.txt",
    ]


@pytest.mark.parametrize("lesson", lesson_names())
def test_solution_keeps_the_contract(lesson: str):
    module = importlib.import_module(f"solutions.{lesson}")
    promised = set(CONTRACT.get(read_lesson(lesson).number, "").split())
    assert promised <= set(read_lesson(lesson).names)
    assert all(hasattr(module, name) for name in read_lesson(lesson).names)
