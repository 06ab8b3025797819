"""Every number of a PPO run, each described once: settings of the rollout (lesson 8) and of the trainer (lesson 9)."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from .shapes import check_number

ESTIMATORS = ("k1", "k2", "k3")
"""Of the KL (lesson 6)."""
COUNT, AT_LEAST_0, UP_TO_1 = {"low": 1}, {"low": 0.0}, {"low": 0.0, "high": 1.0}
ABOVE_0 = {"low": 0.0, "open_low": True}
RANGES: dict[str, dict[str, Any]] = {
    "max_new_tokens num_updates batch_size samples_per_prompt micro_rollout_batch_size": COUNT,
    "num_epochs num_minibatches micro_batch_size kl_horizon": COUNT,
    "temperature clip_score learning_rate critic_learning_rate max_grad_norm": ABOVE_0,
    "clip_epsilon value_clip_epsilon kl_target max_update_kl": ABOVE_0,
    "missing_stop_penalty value_coef entropy_coef kl_coef": AT_LEAST_0,
    "gamma lam critic_lam": UP_TO_1,
    "ratio_threshold": {"low": 1.0, "open_low": True},
    "seed": {"low": 0, "high": 2**63 - 1},
}
"""Settings -> arguments of `check_number`."""
NO_CLIP = 3e38
"""A `clip_score` that no float32 exceeds."""


@dataclass(frozen=True, kw_only=True)
class RolloutConfig:
    """How responses are sampled and turned into rewards and advantages.

    Attributes:
        stop_token_ids: Any of these ends a response.
        pad_token_id: Fills the rows that have ended; may be a stop token.
        max_new_tokens: T at most, >= 1.
        temperature: > 0; the same when sampling, for the reference and in training.
        gamma: Discount in [0, 1].
        lam: GAE's lambda in [0, 1].
        critic_lam: A lambda of its own for the critic's targets, in [0, 1]; 1 carries the score of a long response
            back to its first token. None: `lam`.
        kl_estimator: KL penalty on each token: "k1"; or "k2" or "k3", whose gradients are wrong in a reward
            (lesson 6).
        clip_score: > 0; scores are clipped to +- this before they become rewards.
        missing_stop_penalty: >= 0; subtracted from the score of a response that never stopped.
        whiten_rewards: Scale the rewards to variance 1 before GAE, keeping their mean.
    """

    stop_token_ids: tuple[int, ...]
    pad_token_id: int
    max_new_tokens: int = 24
    temperature: float = 1.0
    gamma: float = 1.0
    lam: float = 0.95
    critic_lam: float | None = None
    kl_estimator: str = "k1"
    clip_score: float = 5.0
    missing_stop_penalty: float = 1.0
    whiten_rewards: bool = False

    def __post_init__(self) -> None:
        if self.clip_score is None:
            object.__setattr__(self, "clip_score", NO_CLIP)
        if self.pad_token_id is None:
            raise ValueError(
                "expected pad_token_id to be a token, got None; take a stop token if the tokenizer has none"
            )
        for field in fields(self):
            _check_field(field.name, str(field.type), getattr(self, field.name))
        if not self.stop_token_ids:
            raise ValueError("expected at least one stop token in stop_token_ids, got none; no response could end")
        if self.kl_estimator not in ESTIMATORS:
            raise ValueError(f"expected kl_estimator to be one of {', '.join(ESTIMATORS)}, got {self.kl_estimator!r}")
        for token in (self.pad_token_id, *self.stop_token_ids):
            check_number("pad_token_id and stop_token_ids", token, 0)


@dataclass(frozen=True, kw_only=True)
class PPOConfig(RolloutConfig):
    """Settings of `PPOTrainer`, on top of those of the rollout (lesson 8). A field out of range is an error.

    Attributes:
        clip_score: > 0; scores are clipped to +- this before they become rewards. None: no clip (stored as
            `NO_CLIP`).
        num_updates: Rollouts in the run, each followed by its optimizer steps, >= 1.
        recompute_log_probs: The policy computes the log-probabilities of the sampled tokens again, in one more
            pass without a cache: for a `sampler` of your own, and for bf16, where a token's two
            log-probabilities differ by up to 0.07.
        batch_size: Prompts, and so responses, in one update, >= 1.
        samples_per_prompt: Responses to each prompt of an update, a divisor of batch_size.
        micro_rollout_batch_size: Responses sampled and evaluated at once; a smaller number needs less memory.
            None: all.
        num_epochs: Passes over the responses of one update, >= 1.
        num_minibatches: Optimizer steps in one epoch, 1 to batch_size.
        micro_batch_size: Rows in one forward and backward; gradients add up to the minibatch's. None: the whole
            minibatch.
        learning_rate: > 0, AdamW, for actor and critic; it rises over the first updates and decays to 0 over the run
            (`schedule=` of PPOTrainer has another course).
        critic_learning_rate: > 0; None: that of the policy.
        max_grad_norm: > 0; gradients are scaled down to this norm before each step.
        clip_epsilon: > 0, half the width of PPO's interval around ratio 1: [1 - epsilon, 1 + epsilon].
        value_clip_epsilon: > 0, in units of value.
        value_coef: >= 0, weight of the value loss.
        entropy_coef: >= 0, weight of the entropy bonus.
        whiten_advantages: Mean 0, variance 1 over the real tokens of each rollout; after the returns are made.
        kl_coef: >= 0, the coefficient (beta) of KL(policy || reference); where the controller starts.
        kl_target: Nats in a whole response that the adaptive controller steers to; None keeps kl_coef fixed.
        kl_horizon: Responses after which an error of 0.2 has changed `kl_coef` by a fifth.
        max_update_kl: Stop the epochs of an update when a minibatch's approx_kl exceeds this; None never does.
        ratio_threshold: > 1; a minibatch with a larger mean ratio is skipped: its gradient would be a spike.
        seed: Sampling and order of prompts and minibatches.
        log_dir: Where TensorBoard files and `metrics.jsonl` go; None writes none.

    Those of the rollout:
    """

    clip_score: float | None = 5.0  # type: ignore[assignment]  # wider than lesson 8 reads: __post_init__ makes it a float
    num_updates: int = 60
    recompute_log_probs: bool = False
    batch_size: int = 64
    samples_per_prompt: int = 1
    micro_rollout_batch_size: int | None = None
    num_epochs: int = 4
    num_minibatches: int = 4
    micro_batch_size: int | None = None
    learning_rate: float = 1e-3
    critic_learning_rate: float | None = None
    max_grad_norm: float = 1.0
    clip_epsilon: float = 0.2
    value_clip_epsilon: float = 0.2
    value_coef: float = 0.1
    entropy_coef: float = 0.0
    whiten_advantages: bool = True
    kl_coef: float = 0.05
    kl_target: float | None = None
    kl_horizon: int = 10_000
    max_update_kl: float | None = None
    ratio_threshold: float = 10.0
    seed: int = 0
    log_dir: str | Path | None = None

    def __post_init__(self) -> None:
        if isinstance(self.log_dir, Path):
            object.__setattr__(self, "log_dir", str(self.log_dir))
        super().__post_init__()
        if self.num_minibatches > self.batch_size:
            raise ValueError(
                f"expected num_minibatches to be at most batch_size, got {self.num_minibatches} and {self.batch_size}; "
                "lower num_minibatches or raise batch_size"
            )
        if self.batch_size % self.samples_per_prompt:
            raise ValueError(
                f"expected batch_size to be a multiple of samples_per_prompt, got {self.batch_size} and "
                f"{self.samples_per_prompt}; batch_size counts the responses"
            )


PPOConfig.__doc__ = f"{PPOConfig.__doc__}{(RolloutConfig.__doc__ or '').partition('Attributes:')[2]}"  # for help()


def _check_field(name: str, kind: str, value: Any) -> None:
    """Demand what the field's annotation says, and of a number its range.

    Raises:
        ValueError: the value is of another type, or out of range.
    """
    if not _is_of_kind(value, kind):
        raise ValueError(f"expected {name} to be {kind}, got {value!r}")
    for names, limits in RANGES.items():
        if name in names.split() and value is not None:
            check_number(name, value, **limits)


def _is_of_kind(value: object, kind: str) -> bool:
    """Whether a value fits an annotation such as "int | None"; a list fits "tuple[int, ...]", and True is no number."""
    if kind == "tuple[int, ...]":
        return isinstance(value, tuple | list) and all(_is_of_kind(one, "int") for one in value)
    types = {"int": (int,), "float": (int, float), "bool": (bool,), "str": (str,), "None": (type(None),)}
    allowed = tuple(one for name in kind.split(" | ") for one in types.get(name, ()))
    return isinstance(value, allowed) and (bool in allowed or not isinstance(value, bool))
