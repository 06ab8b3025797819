"""The two trees: `tutorial/` is what the solutions say, and each solution keeps the contract."""

import ast
import importlib
import shutil
import textwrap
from pathlib import Path

import pytest

from testcases.course.stubs import drift, export
from testcases.harness.catalog import SOLUTIONS, lesson_names, read_lesson, regions
from testcases.harness.oracle.mutations import all_stubs, region_text, stub, suspects, write_files

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


def test_tutorial_agrees_with_solutions():
    assert drift() == [], "run: make stubs"


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


def test_a_new_exercise_becomes_a_public_name(tmp_path: Path):
    folder = shutil.copytree(SOLUTIONS / "lesson03_policy_gradient", tmp_path / "lesson03_policy_gradient")
    file, before = folder / "policy_gradient.py", (folder / "__init__.py").read_text("utf-8")
    export(folder)
    assert (folder / "__init__.py").read_text("utf-8") == before
    new = "\n\ndef zeta():\n    # region solution\n    return 1\n    # endregion\n"
    file.write_text(file.read_text("utf-8") + new + new.replace("zeta", "Alpha"), "utf-8")
    export(folder)
    assert (folder / "__init__.py").read_text("utf-8") == before.replace("import ", "import Alpha, ").replace(
        "rewards_to_go", "rewards_to_go, zeta"
    )


@pytest.mark.parametrize("lesson", lesson_names())
def test_stub_keeps_signature_and_docstring(lesson: str):
    for path in sorted((SOLUTIONS / lesson).glob("*.py")):
        solved, left = _outline(path.read_text("utf-8")), _outline(stub(path))
        assert solved == left, path
        text = stub(path)
        for region in regions(path):
            suspect = suspects(lesson).get(region.exercise)
            body = f'raise NotImplementedError("{read_lesson(lesson).short}: {region.exercise}")'
            body = suspect.change.apply(region_text(lesson, region.exercise)) if suspect else body
            assert textwrap.indent(body, "    ") in text or body in text
        assert "region solution" not in text and "endregion" not in text


def _outline(source: str) -> list[tuple[str, str, str | None]]:
    """Name, arguments and docstring of each function and class, nested functions of a region left out."""
    found = []

    def visit(node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef):
                found.append((prefix + child.name, ", ".join(map(ast.unparse, child.bases)), ast.get_docstring(child)))
                visit(child, prefix + child.name + ".")
            elif isinstance(child, ast.FunctionDef):
                doc = ast.get_docstring(child)
                found.append(
                    (prefix + child.name, ast.unparse(child.args), doc.replace("solutions", "tutorial") if doc else doc)
                )

    visit(ast.parse(source), "")
    return found
