"""The debugging checklist of lesson 9 as code: each check reads the metrics of the updates so far and is silent, or
says in one sentence what is wrong. None of them changes anything."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

Metrics = dict[str, float]
Check = Callable[[Sequence[Metrics]], str | None]
"""The metrics of every update so far, the newest last -> a sentence, or None where all is well (or not measured)."""

RATIO_TOLERANCE = 0.05
"""bfloat16 rounds a ratio by a few percent; a wrong temperature or dropout moves it by much more."""
SAMPLER_TOLERANCE = 0.5
"""Another engine rounds each token's probability by a few per cent, and of thousands this is the largest ratio."""
SAMPLER_KL = 0.01
"""Nats per token between a sampler and the policy: rounding by 5 % makes 0.001, other weights or temperatures more."""
ROUNDING = 1e-5
"""Rounding error of a ratio in float32."""
START_KL = 0.05
"""Nats per response: rounding errors, summed over its tokens."""
LOWEST_KL = -1.0
"""Nats per response: by chance the k1 estimate of a small KL may be a little below 0."""
KL_PER_TOKEN = 2.0
"""Nats per token: such a policy writes what the reference almost never would."""
LEAST_MOVED = 0.1
"""Share of the trained weights."""
LEAST_ENTROPY = 0.01
"""Nats per token: one unlikely token in about a thousand."""
LARGEST_CLIP_FRACTION = 0.5
"""Above it look for a bug, then make the steps smaller; 0.1 to 0.3 is usual (lesson 9, "two numbers")."""
LARGEST_UPDATE_KL = 0.5
"""Nats per token, from the policy that sampled. 0.01 is usual; above 0.02 the steps are large."""
LARGEST_GRAD_NORM = 100.0
"""In units of max_grad_norm."""
CUT_OFF_RATE = 0.5
"""Share of the responses that end without a stop token."""
CLIPPED_SCORES = 0.2
"""Share of the scores."""
CRITIC_UPDATES = 10
"""Updates in a row in which the critic may be worse than a constant."""


def numbers_are_finite(history: Sequence[Metrics]) -> str | None:
    """A loss, gradient or score of NaN or infinity spoils every weight that it reaches."""
    metrics = history[-1]
    may_overflow = metrics.get("loss_scale", 0.0) >= 1.0  # float16's scaler skips such a step, and halves its scale
    broken = [
        name
        for name, value in metrics.items()
        if not math.isfinite(value) and not (may_overflow and name == "grad_norm")
    ]
    if not broken:
        return None
    return (
        f"NaN or infinity in {', '.join(broken)}: too large a step, a mask multiplied in place of selected, or exp "
        "taken before the mask"
    )


def a_step_was_taken(history: Sequence[Metrics]) -> str | None:
    """The ratio guard is there for single minibatches; when it skips all of them, nothing is learned."""
    if history[-1].get("skipped_share", 0.0) < 1.0:
        return None
    return "every minibatch was skipped for its mean ratio: sampling and training do not belong to one policy"


def ratio_starts_at_one(history: Sequence[Metrics]) -> str | None:
    """Before the first step of an update the policy is the one that sampled."""
    ratio, is_other = history[-1].get("first_ratio_max", 1.0), history[-1].get("own_sampler")
    if abs(ratio - 1.0) <= (SAMPLER_TOLERANCE if is_other else RATIO_TOLERANCE):
        return None
    return (
        f"before the first step of an update every ratio is 1, but the largest was {ratio:.2f}: sampling and training "
        "disagree on the temperature, positions, padding, dropout or precision"
    )


def kl_starts_at_zero(history: Sequence[Metrics]) -> str | None:
    """In the first rollout the policy is still its reference."""
    kl, is_other = history[-1].get("kl", 0.0), history[-1].get("own_sampler")
    if len(history) > 1 or abs(kl) <= (SAMPLER_TOLERANCE if is_other else START_KL):
        return None
    return (
        f"before the first update the KL from the reference is 0, but it was {kl:.2f} nats: the reference is not the "
        "model that training starts from, or its dropout is on"
    )


def sampler_is_near(history: Sequence[Metrics]) -> str | None:
    """A sampler should have the weights and the temperature of the policy that it samples for."""
    kl = history[-1].get("sampler_kl", 0.0)
    if kl <= SAMPLER_KL:
        return None
    return (
        f"the sampler is {kl:.3f} nats per token from the policy: it has other weights (those of an update before?), "
        "another temperature, or a much coarser precision"
    )


def kl_is_not_negative(history: Sequence[Metrics]) -> str | None:
    """A mean KL is at least 0, but for the noise of a small sample."""
    kl = history[-1].get("kl", 0.0)
    if kl >= LOWEST_KL:
        return None
    return f"a mean KL cannot be negative, but it was {kl:.2f} nats: a swapped subtraction, or top-k or top-p sampling"


def entropy_is_not_negative(history: Sequence[Metrics]) -> str | None:
    """The entropy of a choice among tokens is at least 0."""
    entropy = history[-1].get("entropy", 0.0)
    if entropy >= -1e-6:
        return None
    return f"an entropy cannot be negative, but it was {entropy:.2f} nats: its sign is wrong, or it averages padding"


def entropy_is_left(history: Sequence[Metrics]) -> str | None:
    """A policy that always says the same can learn nothing more."""
    entropy = history[-1].get("entropy", 1.0)
    if not -1e-6 <= entropy < LEAST_ENTROPY:
        return None
    return f"the entropy fell to {entropy:.3f} nats per token: raise kl_coef, or lower learning_rate"


def policy_moves(history: Sequence[Metrics]) -> str | None:
    """After the first step the ratio leaves 1, if only a little."""
    metrics = history[-1]
    if metrics.get("learning_rate", 1.0) == 0.0:
        return None  # only the critic learns
    if not math.isfinite(metrics.get("grad_norm", 0.0)):
        return None  # a step that float16's scaler has skipped
    if metrics.get("optimizer_steps", 0.0) < 2 or abs(metrics.get("ratio_max", 0.0) - 1.0) > ROUNDING:
        return None
    return "the ratio stayed 1 in all steps: frozen weights, a detached loss, or old log-probs that are made anew"


def weights_move(history: Sequence[Metrics]) -> str | None:
    """A step that is smaller than the rounding of a weight leaves it as it is, in bfloat16 nearly all of them."""
    metrics = history[-1]
    share = metrics.get("moved_share", 1.0)
    if share >= LEAST_MOVED or metrics.get("learning_rate", 1.0) == 0.0 or metrics.get("skipped_share", 0.0) > 0.5:
        return None
    if not math.isfinite(metrics.get("grad_norm", 0.0)):
        return None  # a step that float16's scaler has skipped
    return (
        f"the steps of one update changed {share:.0%} of the trained weights: they are too small for the weights' "
        "precision, so raise learning_rate, or load the models in float32"
    )


def steps_are_small(history: Sequence[Metrics]) -> str | None:
    """The clip is for a few tokens; if it holds half of them, the update went much too far."""
    share, kl = history[-1].get("clip_fraction", 0.0), history[-1].get("approx_kl", 0.0)
    if share <= LARGEST_CLIP_FRACTION and kl <= LARGEST_UPDATE_KL:
        return None
    return (
        f"the steps of one update moved the policy by {kl:.2f} nats per token, and {share:.0%} of the tokens were "
        "clipped: is first_ratio_max 1? Then lower learning_rate or num_epochs, or set max_update_kl"
    )


def gradients_are_not_drowned(history: Sequence[Metrics]) -> str | None:
    """One norm is clipped for actor and critic together: what is left of the policy's gradient must still count."""
    metrics = history[-1]
    norm, most = metrics.get("grad_norm", 0.0), metrics.get("max_grad_norm", math.inf)
    if not math.isfinite(norm) or norm <= LARGEST_GRAD_NORM * most:
        return None
    spread = metrics.get("return_std", math.nan)
    return (
        f"the gradient's norm was {norm:.0f} and is scaled down to max_grad_norm {most:g}, which leaves next to "
        f"nothing of the policy's part: the returns have a standard deviation of {spread:.3g}, so scale the rewards "
        "until it is near 1, or set clip_score"
    )


def kl_stays_near(history: Sequence[Metrics]) -> str | None:
    """The KL penalty keeps the policy near the reference."""
    metrics = history[-1]
    kl = metrics.get("kl", 0.0) / max(metrics.get("response_length", 1.0), 1.0)
    if kl <= KL_PER_TOKEN:
        return None
    return (
        f"the KL from the reference is {kl:.1f} nats per token: read the responses, and raise kl_coef or lower "
        "learning_rate if they are no good"
    )


def scores_are_not_clipped(history: Sequence[Metrics]) -> str | None:
    """A clipped score is the same for every response beyond the clip: nothing in it to learn from."""
    share = history[-1].get("score_clip_fraction", 0.0)
    if share <= CLIPPED_SCORES:
        return None
    return f"{share:.0%} of the scores were clipped to +- clip_score: raise it, or scale the reward"


def responses_stop(history: Sequence[Metrics]) -> str | None:
    """A response that never stops is scored before it is finished."""
    share = 1.0 - history[-1].get("stop_rate", 1.0)
    if share <= CUT_OFF_RATE:
        return None
    return f"{share:.0%} of the responses were cut off: raise max_new_tokens or missing_stop_penalty"


def critic_explains(history: Sequence[Metrics]) -> str | None:
    """A critic that is worse than a constant for long is not learning."""
    last = [metrics.get("explained_variance", 0.0) for metrics in history[-CRITIC_UPDATES:]]
    if len(last) < CRITIC_UPDATES or max(last) >= 0.0:
        return None
    return (
        f"the critic was worse than a constant for {CRITIC_UPDATES} updates (explained variance {last[-1]:.2f}): is it "
        "in the optimizer, and are the returns made before whitening?"
    )


CHECKS: tuple[Check, ...] = (
    numbers_are_finite,
    ratio_starts_at_one,
    sampler_is_near,
    kl_starts_at_zero,
    kl_is_not_negative,
    entropy_is_not_negative,
    entropy_is_left,
    policy_moves,
    weights_move,
    a_step_was_taken,
    steps_are_small,
    gradients_are_not_drowned,
    kl_stays_near,
    scores_are_not_clipped,
    responses_stop,
    critic_explains,
)
"""In this order: what comes first is nearer to the cause."""
STOPS = (numbers_are_finite, a_step_was_taken)
"""Nothing more can be learned after one of these: the run ends."""
BY_NAME: dict[str, Check] = {
    "first_ratio": ratio_starts_at_one,
    "first_kl": kl_starts_at_zero,
    "sampler": sampler_is_near,
    "kl": kl_stays_near,
    "entropy": entropy_is_left,
    "clip": steps_are_small,
    "grad_norm": gradients_are_not_drowned,
    "moves": policy_moves,
    "scores": scores_are_not_clipped,
    "stop_rate": responses_stop,
    "critic": critic_explains,
}
"""What `PPOConfig.stop_on` may name: a run then ends there as well."""


class DivergedError(RuntimeError):
    """The run has gone where nothing more can be learned; the message says which check failed first."""


class LiveChecks:
    """Runs the checks on the metrics of each update, and says each sentence once in a run.

    Args:
        history: the metrics of the updates before, when a run is resumed; what they failed is not said again.
        stop_on: names of checks that end the run, beside those of `STOPS`.
    """

    def __init__(self, history: Sequence[Metrics] = (), stop_on: Sequence[str] = ()) -> None:
        self.history: list[Metrics] = []
        self.failed: dict[Check, str] = {}
        self.named = {BY_NAME[name]: name for name in stop_on}
        for metrics in history:
            self.see(metrics)

    def see(self, metrics: Metrics) -> list[str]:
        """Sentences of the checks that fail now and had not failed before."""
        self.history.append(metrics)
        new: list[str] = []
        for check in CHECKS:
            sentence = None if check in self.failed else check(self.history)
            if sentence is not None:
                self.failed[check] = f"update {len(self.history)}: {sentence}"
                new.append(self.failed[check])
            if numbers_are_finite in self.failed:
                break  # no other check can make sense of NaN
        return new

    def stop_if_diverged(self) -> None:
        """End a run that cannot recover.

        Raises:
            DivergedError: a check of `STOPS` has failed, or one of `stop_on` fails at this update.
        """
        for check in (*STOPS, *self.named):
            sentence = self.failed.get(check) if check in STOPS else check(self.history)
            if sentence is not None:
                where = sentence if check in STOPS else f"update {len(self.history)}: {sentence}"
                asked = f' (stop_on has "{self.named[check]}")' if check in self.named else ""
                first = next(iter(self.failed.values()))
                before = "" if first == where else f"; the first check that failed: {first}"
                raise DivergedError(f"stopped at {where}{asked}{before}")
