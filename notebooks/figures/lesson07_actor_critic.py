"""Notebook 7: four models on one batch, dropout, two optimizers on one backbone, the reference of a LoRA policy."""

import copy
import random
import warnings
from types import SimpleNamespace

import peft
import torch
from matplotlib import pyplot
from matplotlib.figure import Figure
from torch import Tensor, nn

from book.figures import BLUE, ORANGE
from tiny_models.language import Habits, all_prompts, sample_review

from . import suptitle
from .models import EOS, PAD, TOKENIZER

warnings.filterwarnings("ignore", message="`is_gradient_checkpointing`")  # peft asks by the old name

RATES = [0.0, 0.02, 0.05, 0.1, 0.2]
COEFS = [1.0, 0.1, 0.01, 0.001]
LEARNING_RATE = 1e-3


class Batch:
    """96 prompts, and the responses that a policy sampled."""

    def __init__(self, lessons: SimpleNamespace, policy: nn.Module) -> None:
        prompts = TOKENIZER(all_prompts() * 2, padding=True, return_tensors="pt")
        self.prompt_ids, self.prompt_mask = prompts.input_ids, prompts.attention_mask.bool()
        draw = torch.Generator().manual_seed(0)
        written = lessons.rollout.generate(policy, self.prompt_ids, self.prompt_mask, 20, (EOS,), PAD, generator=draw)
        self.responses, self.old_log_probs, self.mask = written
        self.input_ids = torch.cat([self.prompt_ids, self.responses], 1)
        self.visible = torch.cat([self.prompt_mask, self.mask], 1)
        self.P, self.rows = self.prompt_ids.shape[1], torch.arange(len(self.responses))
        self.last = self.P + self.mask.sum(1) - 1

    def errors_from_the_end(self, values: Tensor, scores: Tensor, count: int = 9) -> list[float]:
        """Root mean squared distance of value and score, at the last token, one before it, and so on."""
        errors = []
        for steps in range(count):
            real = self.last - steps >= self.P
            gap = values[self.rows[real], self.last[real] - steps] - scores[real]
            errors.append(gap.square().mean().sqrt().item())
        return errors


def one_review(text: str) -> tuple[Tensor, Tensor, int]:
    """Ids and mask of a finished review with its prompt, and the position of its first token."""
    ids = TOKENIZER(f"review the film : {text}", return_tensors="pt").input_ids
    ids = torch.cat([ids, torch.tensor([[EOS]])], 1)
    return ids, torch.ones_like(ids, dtype=torch.bool), ids.shape[1] - len(text.split()) - 1


def critics(
    review: str, values: dict[str, Tensor], score: float, errors: dict[str, list[float]], constant: float
) -> tuple[Figure, str]:
    figure, (left, right) = pyplot.subplots(1, 2, width_ratios=(1.3, 1))
    words = [*review.split(), "<eos>"]
    for name, style in zip(values, ("o-", "s--", "^-"), strict=True):
        left.plot(values[name], style, markersize=4, label=name)
        right.plot(errors[name], style, markersize=4, label=name)
    left.axhline(score, color="black", linewidth=0.8)
    left.text(2, score - 0.1, "the score", va="top")
    left.set_xticks(range(len(words)), words, rotation=60)
    left.set(xlabel="token just read", ylabel="value (units of score)")
    right.axhline(constant, color="black", linewidth=0.8)
    right.text(8.2, 1.15 * constant, "always the mean score", fontsize=9)
    right.set(xlabel="tokens before the last one", ylabel="root mean squared error", xlim=(8.3, -0.3), ylim=(0, None))
    right.legend(loc="lower left")
    suptitle(figure, "Three critics: one review, and all 96 responses")
    return figure, (
        "Left: along one review the copied critic jumps up and down and ends on the line of the score; the one with a "
        "random head moves more widely; the trained one jumps up at superb and down at weak only. Right: error against "
        "the distance from the end; the copy falls to 0 at the last token and is no better than a constant five tokens "
        "before; the random head is worse than the constant, the trained critic better."
    )


def ratios_with_dropout(lessons: SimpleNamespace, policy: nn.Module, batch: Batch, dropout: float) -> Tensor:
    """The ratio of every real token before the first step, with dropout in the forward pass that is trained."""
    learner = copy.deepcopy(policy).train()
    for part in learner.modules():
        if isinstance(part, nn.Dropout):
            part.p = dropout
    torch.manual_seed(0)
    with torch.no_grad():
        logits = lessons.actor_critic.response_logits(learner, batch.input_ids, batch.visible, batch.P)
    return (lessons.masked.gather_log_probs(logits, batch.responses) - batch.old_log_probs).exp()[batch.mask]


def dropout_ratios(ratios: dict[float, Tensor], outside: list[float]) -> tuple[Figure, str]:
    figure, (left, right) = pyplot.subplots(1, 2)
    left.axvspan(0.8, 1.2, color="0.9")
    left.hist(ratios[0.1].clamp(0, 2.5), bins=50, color=ORANGE, label="dropout 0.1")
    left.axvline(1, color=BLUE, label="dropout 0: all at 1")
    left.set_xticks([0, 0.5, 1, 1.5, 2, 2.5], ["0", "0.5", "1", "1.5", "2", "2.5 or\nmore"])
    left.set(xlabel="ratio of a token (gray: not clipped)", ylabel="tokens", yscale="log")
    left.legend()
    right.plot(list(ratios), outside, "o-", color=ORANGE)
    right.yaxis.set_major_formatter("{x:.0%}")
    right.set(xlabel="dropout", ylabel="tokens outside of 0.8 to 1.2")
    suptitle(figure, "Ratios before the first step")
    return figure, (
        "Left: a histogram of the ratios with dropout 0.1, from near 0 to more than 2.5, around a band from 0.8 to 1.2."
        " Without dropout all are at 1. Right: the share of tokens outside of the band rises with the dropout, from 0."
    )


class Shared:
    """Actor and critic on one backbone, with a value head that was trained for 40 steps, and their two losses."""

    def __init__(self, lessons: SimpleNamespace, policy: nn.Module, batch: Batch, scores: Tensor, values: Tensor):
        self.lessons, self.batch, self.values = lessons, batch, values
        self.model = lessons.actor_critic.SharedPolicyAndValue(copy.deepcopy(policy)).train()
        rewards = torch.zeros(batch.responses.shape)
        rewards[batch.rows, batch.mask.sum(1) - 1] = scores
        advantages, self.returns = lessons.gae.compute_response_gae(rewards, values, batch.mask, gamma=1.0, lam=0.95)
        self.advantages = lessons.masked.masked_whiten(advantages, batch.mask)
        head_only = torch.optim.Adam(self.model.value_head.parameters(), lr=0.05)
        for _ in range(40):
            head_only.zero_grad()
            self.losses()[1].backward()
            head_only.step()
        self.start = copy.deepcopy(self.model.state_dict())

    def losses(self) -> tuple[Tensor, Tensor]:
        batch, ppo = self.batch, self.lessons.ppo
        outputs = self.model(batch.input_ids, batch.visible, batch.P)
        log_probs = self.lessons.masked.gather_log_probs(outputs.logits, batch.responses)
        policy_loss = ppo.compute_ppo_loss(log_probs, batch.old_log_probs, self.advantages, mask=batch.mask)
        return policy_loss, ppo.compute_value_loss(outputs.values, self.values, self.returns, 100.0, batch.mask)

    def gain(
        self, value_coef: float, optimizers: int, kind: type = torch.optim.Adam, lr: float = LEARNING_RATE
    ) -> float:
        """By how much one step from the start lowers the value loss."""
        self.model.load_state_dict(self.start)
        before = self.losses()[1].item()
        if optimizers == 1:
            groups = [(kind(self.model.parameters(), lr=lr), lambda: self.losses()[0] + value_coef * self.losses()[1])]
        else:
            critic = [*self.model.policy.base_model.parameters(), *self.model.value_head.parameters()]
            groups = [
                (kind(self.model.policy.parameters(), lr=lr), lambda: self.losses()[0]),
                (kind(critic, lr=lr), lambda: value_coef * self.losses()[1]),
            ]
        for optimizer, loss in groups:
            optimizer.zero_grad()
            loss().backward()
            optimizer.step()
        with torch.no_grad():
            return before - self.losses()[1].item()


def two_optimizers(gains: dict[int, list[float]]) -> tuple[Figure, str]:
    figure, axes = pyplot.subplots()
    for count, style in ((1, "o-"), (2, "s--")):
        axes.plot(COEFS, gains[count], style, label=f"{count} optimizer{'s' * (count > 1)}")
    axes.set(xscale="log", xlabel="value_coef", ylabel="fall of the value loss in one step")
    axes.axhline(0, color="black", linewidth=0.8)
    axes.invert_xaxis()
    axes.legend(loc="lower left")
    suptitle(figure, "How much one step is worth for the critic")
    return figure, (
        "By how much one step lowers the value loss, for value_coef from 1 down to 0.001. With one optimizer it falls "
        "with value_coef, to below 0; with two optimizers it does not depend on value_coef."
    )


def sft_adapter(lessons: SimpleNamespace, policy: nn.Module, batch: Batch, steps: int = 40) -> nn.Module:
    """A LoRA model whose adapter was fine-tuned on positive reviews."""
    torch.manual_seed(0)
    config = peft.LoraConfig(r=8, target_modules=["c_attn", "c_fc"], fan_in_fan_out=True)
    lora = peft.get_peft_model(copy.deepcopy(policy), config)
    rng, prompts = random.Random(0), all_prompts() * 2
    positive = Habits(positive_mood=1.0, negative_mood=0.0, agreeing_adjective=1.0, neutral_adjective=0.0)
    optimizer = torch.optim.Adam((weight for weight in lora.parameters() if weight.requires_grad), lr=0.01)
    for _ in range(steps):
        chosen = rng.sample(range(len(prompts)), 24)
        reviews = [sample_review(prompts[row], rng, positive) + f" {TOKENIZER.eos_token}" for row in chosen]
        answers = TOKENIZER(reviews, padding=True, padding_side="right", return_tensors="pt")
        real = answers.attention_mask.bool()
        texts = torch.cat([batch.prompt_ids[chosen], answers.input_ids], 1)
        visible = torch.cat([batch.prompt_mask[chosen], real], 1)
        logits = lessons.actor_critic.response_logits(lora, texts, visible, batch.P)
        optimizer.zero_grad()
        (-lessons.masked.gather_log_probs(logits, answers.input_ids)[real].mean()).backward()
        optimizer.step()
    return lora.eval()


def log_ratios(lessons: SimpleNamespace, lora: nn.Module, batch: Batch) -> Tensor:
    """Log-ratio of each response token to the reference, 0 at padding."""
    with lessons.actor_critic.reference_mode(lora) as reference:
        logits = lessons.actor_critic.response_logits(reference, batch.input_ids, batch.visible, batch.P)
    difference = batch.old_log_probs - lessons.masked.gather_log_probs(logits, batch.responses)
    return difference.masked_fill(~batch.mask, 0.0)


def keep_reference(lora: nn.Module) -> None:
    """Keep a frozen copy of the SFT adapter under the name "reference"."""
    lora.add_adapter("reference", lora.peft_config["default"])
    trained = peft.get_peft_model_state_dict(lora, adapter_name="default")
    peft.set_peft_model_state_dict(lora, trained, adapter_name="reference")


def two_references(batch: Batch, off: Tensor, kept: Tensor) -> tuple[Figure, str]:
    figure, axes = pyplot.subplots()
    row = off.sum(1).sub(off.sum(1).mean()).abs().argmin()  # a typical response
    length = batch.mask[row].sum()
    axes.plot(off[row, :length], "o-", color=BLUE, label="all adapters off")
    axes.plot(kept[row, :length], "s--", color=ORANGE, label='adapter "reference"')
    words = [TOKENIZER.decode(token) for token in batch.responses[row, :length]]
    axes.set_xticks(range(length), words, rotation=60)
    axes.set(xlabel="token of one response", ylabel="log-ratio to the reference (nats)")
    axes.legend()
    suptitle(figure, "Two references before the first step")
    return figure, (
        "The log-ratio at each token of one positive review: with all adapters off it is far from 0 at the words of "
        'praise; with the adapter "reference" it is 0 everywhere.'
    )
