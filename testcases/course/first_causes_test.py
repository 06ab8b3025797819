"""What a student reads first about a wrong answer: which definition counts, and what comes before what."""

import itertools
import textwrap
from collections.abc import Callable

import pytest

from testcases.course.students import REGION
from testcases.course.unseen.__main__ import failures
from testcases.harness.catalog.lessons import SOLUTIONS
from testcases.harness.execution.executor import solutions_changed

MASKED = "lesson01_masked_sequences/masked.py"
GAE = "lesson04_gae/gae.py"
PPO = "lesson05_ppo_loss/ppo_loss.py"
REWARDS = "lesson06_kl_rewards/kl_rewards.py"
CLAIMED = "every test passes"

Edit = Callable[[str], str]
"""From the file with everything solved to the student's."""


def body(exercise: str, code: str) -> Edit:
    """Another body for one exercise, below the checks that are given."""

    def edited(source: str) -> str:
        start = source.index(f"def {exercise}(")
        region = textwrap.indent(textwrap.dedent(code).strip("\n"), " " * 4) + "\n"
        return source[:start] + REGION.sub(lambda _: region, source[start:], count=1)

    return edited


def older(*change: str, newer: str) -> Edit:
    """An attempt with a mistake of its own is left in the file, and a newer one stands at its end."""

    def edited(source: str) -> str:
        assert change[0] in source
        return source.replace(*change).rstrip() + "\n" + newer

    return edited


def reports(file: str, exercise: str, edit: Edit) -> list[str]:
    """The first two reports on an exercise, each on one line."""
    subject = solutions_changed(file.partition("/")[0], {file: edit((SOLUTIONS / file).read_text("utf-8"))})
    return [" ".join(str(one).split()) for one in itertools.islice(failures(subject, exercise), 2)]


LOOP = """
    advantages, last = torch.zeros_like(rewards), 0.0
    for t in reversed(range(rewards.shape[-1])):
        alive = 1.0 - dones[..., t].to(rewards.dtype)
        delta = rewards[..., t] + gamma * values[..., t + 1] * alive - values[..., t]
        last = delta + lam * alive * last  # gamma is missing
        advantages[..., t] = last
    return AdvantagesAndReturns(advantages, advantages + values[..., :-1])
"""
SECOND_TRY = f"\n\ndef compute_gae(rewards, values, dones, gamma=0.99, lam=0.95):{LOOP}"
OTHER_NAME = f"\n\ndef with_a_loop(rewards, values, dones, gamma=0.99, lam=0.95):{LOOP}\n\ncompute_gae = with_a_loop\n"
UPDATE = """
    def update(self, current: float, n_steps: int) -> None:
        check_number("current", current, -math.inf)
        check_number("n_steps", n_steps, 0)
        error = min(max(current / self.target - 1, -0.2), 0.2)
        self.value *= 1 + error / self.horizon
"""
CONTROLLER = f"""

class AdaptiveKLController:
    def __init__(self, kl_coef: float, target: float, horizon: int) -> None:
        check_number("kl_coef", kl_coef, 0.0, open_low=True)
        check_number("target", target, 0.0, open_low=True)
        check_number("horizon", horizon, 0.0, open_low=True)
        self.value, self.target, self.horizon = kl_coef, target, horizon
{UPDATE}"""
TARGET = ("current / self.target - 1", "current / self.target")

SELECTED = """
log_probs, old_log_probs, advantages = _select({mask}, log_probs, old_log_probs.detach(), advantages.detach())
ratio = torch.exp(log_probs - old_log_probs)
clipped = ratio.clamp(1 - clip_epsilon, 1 + clip_epsilon)
return -torch.minimum(ratio * advantages, clipped * advantages).mean()
"""
SELECTED_LAST = """
ratio, advantages = (log_probs - old_log_probs.detach()).exp(), advantages.detach()
clipped = ratio.clamp(1 - clip_epsilon, 1 + clip_epsilon)
keep = advantages.bool() if mask is None else mask & advantages.bool()
return -torch.minimum(ratio * advantages, clipped * advantages)[keep].mean()
"""
PACKED = """
rewards, values = rewards.masked_fill(~mask, 0.0), values.masked_fill(~mask, 0.0)
order = (~mask).long().argsort(1, stable=True)
dones = mask.sum(dim=1, keepdim=True) == torch.arange(1, mask.shape[1] + 1, device=mask.device)
packed_values = torch.cat([values.gather(1, order), torch.zeros_like(values[:, :1])], dim=1)
packed = compute_gae(rewards.gather(1, order), packed_values, dones, gamma, lam)
advantages = torch.zeros_like(values).scatter(1, order, packed.advantages).masked_fill(~mask, 0.0)
return AdvantagesAndReturns(advantages, advantages + values)
"""
COUNTED = """
log_ratio = (log_probs - ref_log_probs).masked_fill(~mask, 0.0)
kl = {"k1": log_ratio, "k2": log_ratio**2 / 2, "k3": torch.exp(-log_ratio) - 1 + log_ratio}[estimator]
rewards = -kl_coef * kl
rewards[torch.arange(len(scores)), mask.sum(1) - 1] += scores.clamp(-clip_score, clip_score)
return (rewards * mask).detach()
"""
STOP_LEFT_OUT = """
stops = is_stop(responses, stop_token_ids).int().argmax(dim=1, keepdim=True)
return torch.arange(responses.shape[1]) < stops
"""
NO_ADVANTAGE = "tokens of advantage 0 are not counted"

# The file, the exercise, the student's edit; what the first report says, in this order; what none of the two says.
CASES = {
    # Two definitions: Python runs the last, so the first, dead one must not be blamed.
    "an-older-function-above": (
        (GAE, "compute_gae"), older("stacked + values", "stacked - values", newer=SECOND_TRY),
        ["defines `compute_gae` twice", "it needs gamma * lam"], ["stacked - values", "a wrong sign"]),
    "another-function-by-the-name": (
        (GAE, "compute_gae"), older("stacked + values", "stacked - values", newer=OTHER_NAME),
        ["defines `compute_gae` twice", "it needs gamma * lam"], ["stacked - values", "a wrong sign"]),
    "an-older-class-above": (
        (REWARDS, "AdaptiveKLController.update"), older(*TARGET, newer=CONTROLLER),
        ["defines `AdaptiveKLController` twice", "n_steps is ignored"], ["self.target`"]),
    "one-definition": (
        (GAE, "compute_gae"), body("compute_gae", LOOP), ["it needs gamma * lam"], ["twice"]),
    # A repair that is claimed makes every test pass. verl#2506: the advantages for a mask.
    "advantages-for-a-mask-if-there-is-none": (
        (PPO, "compute_ppo_loss"),
        body("compute_ppo_loss", SELECTED.format(mask="advantages.bool() if mask is None else mask")),
        ["`advantages.bool() if mask is None else mask`", CLAIMED], ["`log_probs`"]),
    "advantages-beside-the-mask": (
        (PPO, "compute_ppo_loss"), body("compute_ppo_loss", SELECTED_LAST),
        ["Likely cause", NO_ADVANTAGE], [CLAIMED]),
    "an-option-by-place": (
        (GAE, "compute_response_gae"), body("compute_response_gae", PACKED),
        ["TypeError", "by name"], [CLAIMED, "too much"]),
    # What explains nearly all failures comes before a guess about one of them.
    "the-last-token-by-counting": (
        (REWARDS, "compute_rewards"), body("compute_rewards", COUNTED),
        [], ["the score is left out", "Elsewhere"]),
    # Flags are flags.
    "flags": (
        (MASKED, "response_mask"), body("response_mask", STOP_LEFT_OUT),
        ["expected [[True, True, True, False, False]]", "expected True, got False", "the stop token is masked out"],
        ["expected 1, got 0"]),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("asked, edit, told, silent", [pytest.param(*row, id=name) for name, row in CASES.items()])
def test_the_first_cause(asked: tuple[str, str], edit: Edit, told: list[str], silent: list[str]):
    said = reports(*asked, edit)
    assert said, "all its tests pass"
    places = [said[0].find(text) for text in told]
    assert -1 not in places and places == sorted(places), f"{told} in\n{said[0]}"
    for text in silent:
        assert all(text not in one for one in said), f"{text!r} in\n" + "\n".join(said)
