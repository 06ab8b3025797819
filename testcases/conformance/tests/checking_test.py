"""check: three outcomes, one line for a difference, and a sentence for what cannot be asked."""

import numpy
import pytest
import torch

from solutions import lesson01_masked_sequences as one
from solutions import lesson02_reward_model as two
from solutions import lesson03_policy_gradient as three
from solutions import lesson04_gae as four
from solutions import lesson05_ppo_loss as five
from solutions import lesson06_kl_rewards as six
from solutions import lesson13_after_ppo as thirteen
from testcases.conformance.ppo_conformance import AGREES, CORNER, DIFFERS, check
from testcases.conformance.ppo_conformance.__main__ import main
from testcases.conformance.ppo_conformance.slow import OPERATIONS

OURS = {name: vars(lesson)[name] for lesson in (one, two, three) for name in OPERATIONS if name in vars(lesson)} | {
    "leave_one_out": three.leave_one_out_baseline,
    "gae": four.compute_gae,
    "gae_response": four.compute_response_gae,
    "policy_loss": five.compute_ppo_loss,
    "value_loss": five.compute_value_loss,
    "kl": six.estimate_kl,
    "token_rewards": six.compute_rewards,
    "group_advantages": lambda scores: thirteen.group_advantages(scores, epsilon=1e-12),
    "dpo_loss": lambda **given: thirteen.dpo_loss(*given.values()),
}


@pytest.mark.parametrize("name", OURS)
def test_the_functions_of_the_course_agree_without_a_switch(name):
    assert set(OURS) == set(OPERATIONS)
    report = check(OURS[name], name)
    assert report.outcome == AGREES, str(report)
    assert not report.six_digits and not report.left_out


def raw(rewards, values, mask, gamma, lam, real_only=True, add=0.0):
    """The recursion over all columns."""
    if real_only:
        rewards, values = rewards * mask, values * mask
    advantages, carry = [], 0.0
    for t in reversed(range(rewards.shape[1])):
        next_value = values[:, t + 1] if t < rewards.shape[1] - 1 else 0.0
        carry = rewards[:, t] + gamma * next_value - values[:, t] + gamma * lam * carry
        advantages.append(carry)
    advantages = torch.stack(advantages[::-1], dim=1) + add
    return advantages, advantages + values


def test_what_fails_with_padding_differs_and_the_heading_counts_it():
    report = check(lambda **given: raw(**given, real_only=False), "gae_response", conventions=["padding=any"])
    assert report.outcome == DIFFERS and report.differences[0].cause == "masked_positions_are_steps"
    assert "agree      11 of 28 cases; not in NaN under the mask (2 of 2), padding (3 of 4), gap (11" in str(report)


def test_a_gap_taken_for_a_step_is_one_line_of_a_corner():
    report = check(raw, "gae_response", conventions=["padding=any"])
    assert report.outcome == CORNER
    assert [(one.kind, one.cause) for one in report.differences if one.kind == "value"] == [("value", "gap_is_a_step")]
    without = {"not_supported": ["gaps", "nan under the mask"]}
    assert check(raw, "gae_response", conventions=["padding=any"], **without).outcome == AGREES


def test_a_report_says_how_to_declare_what_is_meant():
    wrong = {one.kind: one.declared_by for one in check(raw, "gae_response").differences}
    assert wrong["padding is not 0"] == "--convention padding=any" and not wrong["value"]
    assert wrong["nan under the mask"] == '--not-supported "nan under the mask"'


def test_a_loss_without_a_mask_and_ends_before_a_step():
    report = check(lambda mask, **given: five.compute_ppo_loss(**given), "policy_loss")
    assert [one.cause for one in report.differences] == ["mask_ignored"]

    def before(rewards, values, dones, gamma, lam):
        return four.compute_gae(rewards, values, dones[:, 1:], gamma, lam)

    assert check(before, "gae", conventions=["dones=before"]).outcome == AGREES


def test_an_end_that_is_a_time_limit():
    def cut(rewards, values, dones, gamma, lam):
        return four.compute_gae(rewards + gamma * values[:, 1:] * dones, values, dones, gamma, lam)

    report = check(cut, "gae", not_supported=["nan behind an end"])
    assert [one.cause for one in report.differences] == ["bootstrap=at ends"] and report.outcome == CORNER
    assert report.differences[0].declared_by == "--convention 'bootstrap=at ends'"
    declared = check(cut, "gae", conventions=["bootstrap=at ends"], not_supported=["nan behind an end"])
    assert declared.outcome == AGREES and not declared.six_digits


def test_a_cause_is_named_to_six_digits_too():
    report = check(lambda **given: raw(**given, add=3e-8), "gae_response", conventions=["padding=any"])
    assert "gap_is_a_step" in [one.cause for one in report.differences]


def test_an_inferred_convention_is_no_agreement():
    def whole(values, old_values, returns, clip_epsilon, mask):
        return 2 * five.compute_value_loss(values, old_values, returns, clip_epsilon, mask)

    report = check(whole, "value_loss")
    assert report.outcome == DIFFERS and [name for name, _ in report.inferred] == ["half=1"]
    assert "inferred   half=1" in str(report)
    assert check(whole, "value_loss", conventions=["half=1"]).outcome == AGREES
    by_row = check(lambda values, mask: (values * mask).sum(1).div(mask.sum(1)).nanmean(), "masked_mean")
    assert [name for name, _ in by_row.inferred] == ["reduction=row"], "which padding alone shows"
    capped = check(lambda **given: six.estimate_kl(**given).clamp(max={"k3": 10.0}.get(given["estimator"], 1e9)), "kl")
    assert [name for name, _ in capped.inferred] == ["clamp=10 of k3"], "clamp=10 fits the ordinary cases, too"


def test_what_nobody_states_differs_on_plain_input():
    lam_ignored = check(lambda lam, **given: four.compute_gae(**given, lam=1.0), "gae")
    assert [(one.cause, one.is_plain) for one in lam_ignored.differences] == [("lam_ignored", True)]
    report = check(lambda **given: five.compute_ppo_loss(**given) + 1, "policy_loss")
    assert report.outcome == DIFFERS and not report.inferred
    values = [one for one in report.differences if one.kind == "value"]
    assert len(values) == 1 and len(values[0].situations) > 2, "a line for a difference, not for a case or a situation"


def test_nan_under_the_mask_hides_no_other_difference():
    def mean(values, mask):
        return (values * mask).sum() / mask.shape[1]

    found = check(mean, "masked_mean").differences
    assert {one.kind for one in found} >= {"value"}


def test_the_other_kinds_of_difference():
    kinds = {
        "raises": lambda values, mask, shift_mean: 1 / 0,
        "shape": lambda values, mask, shift_mean: one.masked_whiten(values, mask, shift_mean)[0],
        "no gradient": lambda **given: one.masked_whiten(**given).detach(),
        "padding is not 0": lambda values, mask, shift_mean: one.masked_whiten(values, mask, shift_mean) + 1.0 * ~mask,
        "changed in place": lambda values, **given: one.masked_whiten(values.add_(1.0) - 1.0, **given),
        "gradient": lambda values, mask, shift_mean: (
            (w := one.masked_whiten(values, mask, shift_mean)).detach() + w * 2 - 2 * w.detach()
        ),
    }
    for kind, function in kinds.items():
        options = {"conventions": ["differentiable=no"]} if kind == "changed in place" else {}
        found = check(function, "masked_whiten", **options).differences
        seen = {difference.kind for difference in found}
        assert kind in seen and ("raises" in seen) == (kind == "raises"), (kind, found)


@pytest.mark.parametrize("framework, kind", [("numpy", numpy.ndarray), ("list", list), ("torch", torch.Tensor)])
def test_a_function_may_take_and_give_arrays_or_lists(framework, kind):
    def to_go(rewards, mask, gamma):
        assert isinstance(rewards, kind)
        plain = [value.tolist() if hasattr(value, "tolist") else value for value in (rewards, mask)]
        return OPERATIONS["rewards_to_go"](*plain, gamma)

    assert check(to_go, "rewards_to_go", framework=framework, conventions=["differentiable=no"]).outcome == AGREES


@pytest.mark.parametrize(
    "asked, sentence",
    [
        (["nowhere:gae", "--as", "gae"], "No module named 'nowhere'"),
        (["nowhere.py:gae", "--as", "gae"], "there is no file nowhere.py"),
        (["math:pi", "--as", "gae"], "expected a function, got float"),
        (["math:sqrt", "--as", "gaee"], "expected an operation, got 'gaee'"),
        (["math:nothing", "--as", "gae"], "math has no nothing"),
        (["math", "--as", "gae"], "expected module:function, got 'math'"),
        (["math:sqrt"], "expected --as and an operation"),
        (["math:sqrt", "--as", "gae", "--convention", "half=3"], "gae has no convention 'half=3'"),
        (["math:sqrt", "--as", "gae", "--not-supported", "gap"], "no case of any operation needs ['gap']"),
        (["math:sqrt", "--as", "gae", "--framework", "jax"], "expected framework to be one of torch, numpy, list"),
        (["math:sqrt", "--as", "gae", "--dtype", "half"], "expected dtype to be float32 or float64"),
        (["--case", "gae-99"], "gae has no case 'gae-99'"),
    ],
)
def test_bad_input_is_one_sentence(capsys, asked, sentence):
    assert main(asked) == 2
    error = capsys.readouterr().err
    assert sentence in error and error.count("\n") == 1


def test_a_function_with_other_names_is_told_what_it_is_called_with():
    sentence = "is called with rewards, values, dones, gamma, lam by name .* def mine"
    with pytest.raises(ValueError, match=sentence):
        check(lambda r, v, d, g, w: None, "gae")
    with_metrics = check(lambda **given: (five.compute_ppo_loss(**given), {"clipped": 0.5}), "policy_loss")
    assert "expected numbers, got dict: write a wrapper" in with_metrics.differences[0].got


def test_the_command_prints_a_report_and_its_exit_code(capsys, tmp_path):
    (tmp_path / "mine_to_check.py").write_text(
        "from testcases.conformance.ppo_conformance.slow import rewards_to_go as right\n"
        "def wrong(rewards, mask, gamma):\n    return [[2 * x for x in row] for row in right(rewards, mask, gamma)]\n"
    )
    assert main([f"{tmp_path}/mine_to_check.py:right", "--as", "rewards_to_go", "--framework", "list"]) == 0
    assert main([f"{tmp_path}/mine_to_check.py:wrong", "--as", "rewards_to_go", "--framework", "list"]) == 1
    shown = capsys.readouterr().out
    assert "rewards_to_go 1.0.0 · rewards_to_go · agrees" in shown and "· differs" in shown
    assert main([]) == main(["--as", "gae"]) == main(["--case", "gae-end-01"]) == 0


def test_a_flag_that_is_not_used_is_named():
    report = check(lambda values, mask, shift_mean: one.masked_whiten(values, mask, True), "masked_whiten")
    assert "shift_mean_ignored" in [found.cause for found in report.differences]


def test_what_float32_rounds_is_said_and_nothing_is_advised():
    def k3(log_probs, ref_log_probs, estimator):
        r = log_probs.float() - ref_log_probs.float()
        return {"k1": r, "k2": r**2 / 2, "k3": (-r).exp() - 1 + r}[estimator]

    (found,) = check(k3, "kl").differences
    assert "float32 inside?" in str(found) and not found.declared_by


def test_tools_come_last():
    report = check(lambda rewards, values, mask, gamma, lam: (rewards, values), "gae_response")
    assert [one.is_of_tools for one in report.differences] == sorted(one.is_of_tools for one in report.differences)
