"""Lesson 2: the reward model, a language model with a scalar head, trained on comparisons (Bradley-Terry).

Scores are float32 or float64, those of a model in 16 bits apart, and an answer has the precision of its arguments. No
function changes its arguments, but for the models that are trained or calibrated.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid
from tqdm import tqdm

from ppo_by_hand.core.shapes import check_number, check_shapes, text_config

from ..lesson01_masked_sequences import first_true_index, position_ids

if TYPE_CHECKING:
    from transformers import PreTrainedModel

HEAD_FILE = "reward_head.safetensors"


class PreferenceBatch(NamedTuple):
    """Comparisons as token ids: for row i of N, a person preferred `chosen_ids[i]` to `rejected_ids[i]`."""

    chosen_ids: Tensor
    """(N, L) int64, prompt and response."""
    chosen_mask: Tensor
    """(N, L) bool, True on real tokens; padding on either side."""
    rejected_ids: Tensor
    """(N, L) int64, padded to the same L."""
    rejected_mask: Tensor
    """(N, L) bool."""

    def rows(self, index: Tensor) -> PreferenceBatch:
        """Return the comparisons with these row numbers, shape (M,) int64."""
        return PreferenceBatch(*(tensor[index] for tensor in self))


@dataclass(frozen=True)
class RewardModelConfig:
    """How `train_reward_model` trains."""

    learning_rate: float = 1e-3
    """AdamW step size, > 0; it decays linearly to 0."""
    epochs: int = 1
    """Passes over the comparisons. More than one overfits quickly (InstructGPT, 2022, appendix C.2)."""
    batch_size: int = 64
    """Comparisons in one optimizer step."""
    max_grad_norm: float = 1.0
    """Gradients are scaled down to this norm."""
    seed: int = 0
    """Order of the comparisons."""

    def __post_init__(self) -> None:
        check_number("learning_rate", self.learning_rate, 0.0, open_low=True)
        check_number("epochs", self.epochs, 1)
        check_number("batch_size", self.batch_size, 1)
        check_number("max_grad_norm", self.max_grad_norm, 0.0, open_low=True)


def last_token_index(attention_mask: Tensor) -> Tensor:
    """Return the index of the last real token of each row, on whichever side the padding is.

    Args:
        attention_mask: (B, L) bool, or integers 0 and 1; padded on the left, on the right or both; gaps are allowed.

    Returns:
        (B,) int64 in [0, L).

    Raises:
        ValueError: `attention_mask` is not (B, L), or a row has no real token.
    """
    check_shapes(attention_mask=(attention_mask, "B L"))
    if not attention_mask.bool().any(dim=1).all():
        raise ValueError("expected a real token in each row of attention_mask, got a row of padding only")
    raise NotImplementedError("lesson02: last_token_index")


class ScalarHead(nn.Linear):
    """One number from a hidden state, for reward model and critic. Given.

    It is float32 at least, whatever the backbone is: a head is trained, and in 16 bits most of its steps would be lost.
    Small weights start all numbers near 0 (Stiennon et al., 2020).
    """

    def __init__(self, backbone: nn.Module) -> None:
        config = text_config(backbone)
        size = int(getattr(config, "word_embed_proj_dim", None) or config.hidden_size)  # OPT-350m has both
        super().__init__(size, 1)
        nn.init.normal_(self.weight, std=1 / (size + 1) ** 0.5)
        nn.init.zeros_(self.bias)
        dtype = next((weight.dtype for weight in backbone.parameters() if weight.is_floating_point()), torch.float32)
        self.to(torch.promote_types(dtype, torch.float32))

    def forward(self, hidden: Tensor) -> Tensor:
        return super().forward(hidden.to(self.weight.dtype))


class RewardModel(nn.Module):
    """A transformer backbone with a linear head at the last real token: one score for a prompt and its response.

    Args:
        backbone: a model without a language-model head (such as `GPT2Model`): called with `input_ids`,
            `attention_mask`, `position_ids` and `use_cache=False` (no token is generated after it), it returns an
            object with `last_hidden_state` (B, L, H), and `backbone.config.hidden_size` is H. It is used, not copied.
    """

    def __init__(self, backbone: PreTrainedModel) -> None:
        super().__init__()
        self.backbone = backbone
        self.head: nn.Linear = ScalarHead(backbone)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Score each row at its last real token.

        Args:
            input_ids: (B, L) int64, padded on either side.
            attention_mask: (B, L) bool, True on real tokens.

        Returns:
            (B,) scores; a row's score does not depend on how much padding it has. The model keeps nothing of a batch,
            and its modes stay as they are.

        Raises:
            ValueError: shapes disagree, or a row has no real token.
        """
        check_shapes(input_ids=(input_ids, "B L"), attention_mask=(attention_mask, "B L"))
        raise NotImplementedError("lesson02: RewardModel.forward")

    def save_pretrained(self, directory: str | Path) -> None:
        """Write the backbone with its own `save_pretrained` and the head beside it, as safetensors."""
        from safetensors.torch import save_file

        self.backbone.save_pretrained(directory)
        save_file(self.head.state_dict(), Path(directory) / HEAD_FILE)

    @classmethod
    def from_pretrained(cls, directory: str | Path) -> RewardModel:
        """Load what `save_pretrained` wrote.

        Raises:
            FileNotFoundError: the directory holds no reward head.
        """
        from safetensors.torch import load_file
        from transformers import AutoModel

        head_file = Path(directory) / HEAD_FILE
        if not head_file.is_file():
            raise FileNotFoundError(
                f"expected a reward model saved by save_pretrained, got no {HEAD_FILE} in {directory}"
            )
        model = cls(AutoModel.from_pretrained(directory))
        model.head.load_state_dict(load_file(head_file))
        return model


def pairwise_loss(chosen: Tensor, rejected: Tensor, margin: Tensor | None = None) -> Tensor:
    """Return the negative log-likelihood of the comparisons under Bradley-Terry, averaged over the pairs.

    The chosen response is preferred with probability sigmoid(d), d the difference of the two scores less the margin.

    Args:
        chosen: (B,) scores of the preferred responses.
        rejected: (B,) scores of the other responses, row by row to the same prompt.
        margin: (B,) how much better the chosen one must be, or None for 0 (Llama 2, 2023, section 3.2.2).

    Returns:
        () scalar, >= 0; log 2 when both scores are equal. Loss and gradient are finite for differences of +-200.

    Raises:
        ValueError: shapes disagree.
    """
    check_shapes(chosen=(chosen, "B"), rejected=(rejected, "B"), margin=(margin, "B"))
    raise NotImplementedError("lesson02: pairwise_loss")


def ranking_loss(scores: Tensor) -> Tensor:
    """Return the pairwise loss of a full ranking: the mean over all K (K - 1) / 2 ordered pairs of each prompt.

    Args:
        scores: (B, K) scores of K responses to one prompt, the best first, K >= 2.

    Returns:
        () scalar: mean over pairs and prompts of -log sigmoid(better - worse).

    Raises:
        ValueError: `scores` is not (B, K), or K < 2.

    Source: Ouyang et al. (InstructGPT), 2022, equation 1.
    """
    check_shapes(scores=(scores, "B K"))
    check_number("K, the responses to rank", scores.shape[1], 2)
    raise NotImplementedError("lesson02: ranking_loss")


def token_pairwise_loss(
    chosen_scores: Tensor, rejected_scores: Tensor, chosen_ids: Tensor, rejected_ids: Tensor, pad_token_id: int
) -> Tensor:
    """Compare two responses at every position, from the first token that differs: DeepSpeed-Chat's loss.

    For each pair, -log sigmoid(chosen_scores[t] - rejected_scores[t]) is averaged over
    first difference <= t < length of the longer of the two; then over the pairs. Before the first difference
    both rows hold the same prefix, so a causal model gives them the same score: nothing to learn there.

    Args:
        chosen_scores: (B, L) a score at every position; after the end of the longer text any value, NaN included.
        rejected_scores: (B, L), likewise.
        chosen_ids: (B, L) int64, right-padded.
        rejected_ids: (B, L) int64, right-padded.
        pad_token_id: padding starts at its first occurrence, so it must not occur inside a text.

    Returns:
        () scalar.

    Raises:
        ValueError: shapes disagree, a padding token comes before a real one, or a pair is identical.
    """
    check_shapes(
        chosen_scores=(chosen_scores, "B L"),
        rejected_scores=(rejected_scores, "B L"),
        chosen_ids=(chosen_ids, "B L"),
        rejected_ids=(rejected_ids, "B L"),
    )
    if (chosen_ids == rejected_ids).all(dim=1).any():
        raise ValueError(
            "expected two different responses in each pair, got an identical pair; it carries no information: drop it"
        )
    for name, ids in (("chosen_ids", chosen_ids), ("rejected_ids", rejected_ids)):
        is_pad = ids == pad_token_id
        if (is_pad[:, :-1] & ~is_pad[:, 1:]).any():
            raise ValueError(
                f"expected {name} to be right-padded, got a token after pad_token_id {pad_token_id}; "
                "the text would be taken to end there"
            )
    raise NotImplementedError("lesson02: token_pairwise_loss")


def preference_accuracy(chosen: Tensor, rejected: Tensor) -> Tensor:
    """Return the fraction of comparisons whose chosen response has the strictly higher score; a tie does not count.

    Args:
        chosen: (B,) scores of the preferred responses, no NaN among them.
        rejected: (B,) scores of the other responses, row by row to the same prompt, no NaN either.

    Returns:
        () float32 in [0, 1], without gradient.

    Raises:
        ValueError: shapes disagree.
    """
    check_shapes(chosen=(chosen, "B"), rejected=(rejected, "B"))
    raise NotImplementedError("lesson02: preference_accuracy")


@torch.no_grad()
def calibrate(model: RewardModel, batches: Iterable[tuple[Tensor, Tensor]]) -> None:
    """Shift and scale the head, in place, so that reference responses score mean 0 and standard deviation 1.

    Bradley-Terry determines differences only: without this step the offset of the score is arbitrary, and
    `kl_coef` and `clip_score` mean something else with every reward model.

    Args:
        model: in eval mode. Its `head.weight` and `head.bias` are updated in place; the backbone is not changed.
        batches: pairs (input_ids (B, L), attention_mask (B, L)) of responses sampled from the policy *before*
            PPO. They are iterated over once. The statistics are those of all rows together (unbiased standard
            deviation), not a mean over batches. However close together they are, scores that differ are calibrated.

    Raises:
        ValueError: fewer than two responses, or all scores are equal (compare the scores themselves: the computed
            standard deviation of equal numbers is often slightly above 0).
    """
    raise NotImplementedError("lesson02: calibrate")


def train_reward_model(model: RewardModel, pairs: PreferenceBatch, config: RewardModelConfig) -> list[dict[str, float]]:
    """Fit the model to comparisons with one `torch.optim.AdamW` (no weight decay) and the pairwise loss.

    Of n optimizer steps in all, step k = 0, 1, ... uses learning_rate * (1 - k / n). Before each step, the gradient of
    all parameters together is scaled down to the norm `max_grad_norm` if its norm is larger.

    Args:
        model: trained in place, all of it in train mode, on the device it is on; left in eval mode. Each of its
            parameters requires a gradient, and none has one yet; those of the last step may stay, or be None.
        pairs: N comparisons, on the device of the model. Each is used once per epoch, in batches of `batch_size` (the
            last may be smaller). The order is new in each epoch, drawn from a generator of its own, of any kind, seeded
            with `config.seed`.
        config: step size, epochs, batch size.

    Returns:
        One dict per optimizer step: `loss` (nats) and `accuracy`, as floats, of the batch before the step.

    Raises:
        ValueError: there are no pairs.
    """
    check_number("the number of pairs", len(pairs.chosen_ids), 1)
    check_shapes(**{name: (tensor, "N L") for name, tensor in pairs._asdict().items()})
    raise NotImplementedError("lesson02: train_reward_model")
