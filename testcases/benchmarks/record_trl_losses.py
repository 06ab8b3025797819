"""What TRL's GRPO, RLOO and DPO trainers make of a batch, in float64: trl_losses.json.

    .venv-bench/bin/python -m testcases.benchmarks.record_trl_losses        (make .venv-bench/.ready installs TRL)

trl_losses_test.py holds lesson 13 against it. Each loss comes from TRL's own `_compute_loss`, through a model of one
table, which says how likely each token is after each other one; its gradient with respect to this table is kept. The
advantages come from the lines of `_generate_and_score_completions`, run as they stand.
"""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import trl
from datasets import Dataset
from tokenizers import Tokenizer, models
from torch import Tensor, nn
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast
from trl.trainer import grpo_trainer, rloo_trainer

from .record_trl import cut, drawn, record

FILE = Path(__file__).with_name("trl_losses.json")
PAD, EOS, VOCABULARY, GROUP, CONSTANT = 0, 1, 7, 4, 9
PROMPTS = torch.tensor([[0, 2, 3], [4, 2, 3]]).repeat_interleave(GROUP, 0)
RESPONSES = torch.tensor(
    [
        [2, 3, 4, 5, 1],
        [5, 1, 0, 0, 0],
        [4, 6, 1, 0, 0],
        [1, 0, 0, 0, 0],
        [6, 5, 4, 3, 2],
        [3, 1, 0, 0, 0],
        [2, 2, 2, 1, 0],
        [5, 4, 6, 1, 0],
    ]
)
"""Of 5, 2, 3, 1, 5, 2, 4 and 4 tokens; one never stops."""
MASK = RESPONSES != PAD
LOSSES = {
    "grpo": {"loss_type": "grpo", "epsilon_high": 0.2},
    "dapo": {"loss_type": "dapo", "epsilon_high": 0.28},
    "dr_grpo": {"loss_type": "dr_grpo", "epsilon_high": 0.2, "max_completion_length": CONSTANT},
    "gspo": {"loss_type": "grpo", "epsilon_high": 0.2, "importance_sampling_level": "sequence"},
    "kl": {"loss_type": "dapo", "epsilon_high": 0.28, "beta": 0.3, "use_bias_correction_kl": True},
}
"""Each with epsilon 0.2 below; `beta` is the KL's coefficient."""
WINDOW = 2
"""Microbatches of an accumulation window."""


class Table(nn.Module):
    """A language model that reads one token."""

    def __init__(self, weights: Tensor) -> None:
        super().__init__()
        self.weights = nn.Parameter(weights.clone())

    def forward(self, input_ids: Tensor, logits_to_keep: int = 0, **rest: Any) -> SimpleNamespace:
        return SimpleNamespace(logits=self.weights[input_ids][:, -logits_to_keep:])


def made(kind: str, folder: str, **settings: Any) -> Any:
    """One of TRL's trainers, with a model that no loss below uses."""
    words = {name: number for number, name in enumerate(("[PAD]", "</s>", *"abcde"))}
    inner = Tokenizer(models.WordLevel(words, unk_token="a"))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, pad_token="[PAD]", eos_token="</s>")
    model = GPT2LMHeadModel(GPT2Config(vocab_size=VOCABULARY, n_embd=8, n_layer=1, n_head=1, n_positions=16))
    model.save_pretrained(folder)
    model = GPT2LMHeadModel.from_pretrained(folder)  # a reference is loaded from where it came from
    common = {"output_dir": folder, "use_cpu": True, "report_to": "none", "bf16": False}
    if kind == "DPO":
        rows = Dataset.from_list([{"prompt": "a", "chosen": "b", "rejected": "c"}] * 8)
        rewards = {}
    else:
        common |= {"num_generations": GROUP, "per_device_train_batch_size": len(RESPONSES)}
        rows = Dataset.from_list([{"prompt": "a"}] * 8)
        rewards = {"reward_funcs": lambda completions, **_: [0.0] * len(completions)}
    args = getattr(trl, f"{kind}Config")(**common | settings)
    trainer = getattr(trl, f"{kind}Trainer")(
        model=model, args=args, train_dataset=rows, processing_class=tokenizer, **rewards
    )
    trainer.current_gradient_accumulation_steps = 1
    trainer.model.train()
    return trainer


def inputs() -> dict[str, Tensor]:
    """Everything that is random, once for all."""
    normal = functools.partial(drawn, torch.Generator().manual_seed(0))
    table = normal(VOCABULARY, VOCABULARY)
    return {
        "prompts": PROMPTS,
        "responses": RESPONSES,
        "table": table,
        "old_table": table + normal(VOCABULARY, VOCABULARY, scale=0.2),
        "ref_table": table + normal(VOCABULARY, VOCABULARY, scale=0.4),
        "scores": normal(len(RESPONSES), scale=2.0),
    }


def log_probs(table: Tensor) -> Tensor:
    """Of the responses' tokens."""
    tokens = torch.cat([PROMPTS, RESPONSES], dim=1)
    logits = table[tokens][:, PROMPTS.shape[1] - 1 : -1]
    return logits.log_softmax(dim=-1).gather(2, RESPONSES[:, :, None]).squeeze(2)


def advantages(given: dict[str, Tensor]) -> dict[str, Tensor]:
    """As the trainers compute them from the scores, group by group."""
    space = {"rewards": given["scores"].clone(), "num_generations": GROUP, "torch": torch}
    found = {}
    for name, scale in (("grpo", "group"), ("dr_grpo", "none")):
        first, last = "mean_grouped_rewards = torch.nanmean(rewards", "advantages = advantages / (std_rewards + 1e-4)"
        code = cut(grpo_trainer.GRPOTrainer._generate_and_score_completions, first, last)
        here = vars(grpo_trainer) | space | {"self": SimpleNamespace(scale_rewards=scale)}
        exec(code, here)
        found[name] = here["advantages"]
    first, last = "grouped_rewards = rewards.view", "advantages = rewards - baselines"
    here = vars(rloo_trainer) | space
    exec(cut(rloo_trainer.RLOOTrainer._generate_and_score_completions, first, last), here)
    return found | {"rloo": here["advantages"]}


def batch(given: dict[str, Tensor], weights: Tensor, rows: slice) -> dict[str, Tensor]:
    """The inputs of `_compute_loss`, of some rows of the window."""
    old, ref = log_probs(given["old_table"]), log_probs(given["ref_table"])
    return {
        "prompt_ids": PROMPTS[rows],
        "prompt_mask": (PROMPTS != PAD)[rows].long(),
        "completion_ids": RESPONSES[rows],
        "completion_mask": MASK[rows].long(),
        "advantages": weights[rows],
        "old_per_token_logps": old[rows],
        "ref_per_token_logps": ref[rows],
        "old_logps": (old * MASK).sum(1)[rows],
        "num_items_in_batch": MASK.sum(),
    }


def policy_losses(given: dict[str, Tensor], found: dict[str, Tensor]) -> dict[str, Any]:
    """Of the whole batch, and of its halves as the microbatches of one window."""
    answers: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        trainers = {name: made("GRPO", folder, epsilon=0.2, **settings) for name, settings in LOSSES.items()}
        trainers["rloo"] = made("RLOO", folder, epsilon=0.2, epsilon_high=0.3)
        for name, trainer in trainers.items():
            weights = found[name if name in found else "grpo"]
            whole = answer(given, trainer, batch(given, weights, slice(None)))
            answers[name] = {"advantages": weights, **whole}
            if name != "rloo":  # whose parts the HF Trainer divides
                trainer.current_gradient_accumulation_steps = WINDOW
                trainer.args.steps_per_generation = WINDOW
                halves = (slice(0, GROUP), slice(GROUP, None))
                answers[name]["microbatches"] = [answer(given, trainer, batch(given, weights, one)) for one in halves]
    return answers


def answer(given: dict[str, Tensor], trainer: Any, rows: dict[str, Tensor], *more: Any) -> dict[str, Tensor]:
    model = Table(given["table"])
    loss = trainer._compute_loss(model, rows, *more)
    loss.backward()
    return {"loss": loss.detach(), "gradient": model.weights.grad}


def preference_loss(given: dict[str, Tensor]) -> dict[str, Any]:
    """DPO's: the first half of the rows are chosen, the second half rejected, each with its own prompt."""
    tokens, mask = torch.cat([PROMPTS, RESPONSES], dim=1), torch.cat([torch.zeros_like(PROMPTS), MASK.long()], dim=1)
    with tempfile.TemporaryDirectory() as folder:
        trainer = made("DPO", folder, beta=0.7)
        trainer.ref_model = Table(given["ref_table"])
        rows = {"input_ids": tokens, "attention_mask": (tokens != PAD).long(), "completion_mask": mask}
        return answer(given, trainer, rows, False)


def main() -> None:
    torch.set_default_dtype(torch.float64)
    given = inputs()
    found = advantages(given)
    report = {
        "given": given,
        "advantages": found,
        "losses": {**policy_losses(given, found), "dpo": preference_loss(given)},
    }
    record(FILE, "testcases/benchmarks/record_trl_losses.py", report)


if __name__ == "__main__":
    main()
