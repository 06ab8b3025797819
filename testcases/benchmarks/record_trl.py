"""What TRL's own functions, and the blocks of its `PPOTrainer.train`, answer on fixed inputs: trl_values.json.

    .venv-bench/bin/python -m testcases.benchmarks.record_trl        (make .venv-bench/.ready installs TRL)

trl_values_test.py holds ours against it. The blocks are cut out of the source of `train` by their first and last lines
and run as they stand, in float64; a line that is not found is an error, so another version of TRL cannot pass for this.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import itertools
import json
import re
import tempfile
import textwrap
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import trl
from torch import Tensor
from trl.experimental.ppo import ppo_trainer

FILE = Path(__file__).with_name("trl_values.json")
EOS, PAD, PROMPT, VOCABULARY = 1, 0, 3, 5
RESPONSES = torch.tensor([[2, 3, 1, 0, 0], [4, 2, 3, 3, 2], [3, 4, 2, 2, 1], [2, 1, 0, 0, 0]])
"""One ends early, one never, one with its last token."""
QUERIES = torch.tensor([[0, 2, 3], [4, 2, 3], [0, 0, 2], [3, 3, 3]])
SETTINGS = {"kl_coef": 0.05, "gamma": 0.9, "lam": 0.8, "missing_eos_penalty": 1.5}
LOSS = {"cliprange": 0.2, "cliprange_value": 0.3, "vf_coef": 0.1, "temperature": 0.7}
ROLLOUT_BLOCK = ("# Response Processing 3.", "advantages = torch.masked_fill(advantages, padding_mask, 0)")
LENGTHS_BLOCK = ("sequence_length = first_true_indices", "sequence_length = first_true_indices")
LOSS_BLOCK = ("logits /= args.temperature + 1e-7", "loss = pg_loss + args.vf_coef * vf_loss")
STATISTICS_BLOCK = ("pg_clipfrac = masked_mean(", "entropy = torch.logsumexp")


def cut(method: Any, first: str, last: str, which: int = 0) -> str:
    """The lines of a method from the first (or `which`) that begins so to the next that begins so."""
    lines = inspect.getsource(method).splitlines()
    start = [number for number, line in enumerate(lines) if line.strip().startswith(first)][which]
    end = next(number for number in range(start, len(lines)) if lines[number].strip().startswith(last))
    return textwrap.dedent("\n".join(lines[start : end + 1]))


def run(place: tuple[str, str], **names: Any) -> dict[str, Any]:
    """The names after a block of `train` that begins with these."""
    space = vars(ppo_trainer) | names
    exec(cut(ppo_trainer.PPOTrainer.train, *place, which=-1 if place == LOSS_BLOCK else 0), space)
    return space


def drawn(source: torch.Generator, *shape: int, scale: float = 1.0) -> Tensor:
    return torch.randn(*shape, generator=source, dtype=torch.float64) * scale


def inputs() -> dict[str, Tensor]:
    """Everything that is random, once for all."""
    source = torch.Generator().manual_seed(0)
    batch, length = RESPONSES.shape
    normal = functools.partial(drawn, source)
    return {
        "queries": QUERIES,
        "responses": RESPONSES,
        "logits": normal(batch, PROMPT + length, VOCABULARY, scale=2.0),
        "old_logprobs": -normal(batch, length).abs(),
        "ref_logprobs": -normal(batch, length).abs(),
        "values": normal(batch, length),
        "new_values": normal(batch, length),
        "returns": normal(batch, length),
        "advantages": normal(batch, length),
        "scores": normal(batch, scale=3.0),
    }


def rollout(given: dict[str, Tensor], kl_estimator: str, whiten_rewards: bool) -> dict[str, Tensor]:
    """Rewards, advantages and returns; TRL writes into some of its inputs."""
    args = SimpleNamespace(**SETTINGS, kl_estimator=kl_estimator, whiten_rewards=whiten_rewards)
    lengths = run(LENGTHS_BLOCK, postprocessed_response=RESPONSES, processing_class=SimpleNamespace(pad_token_id=PAD))
    after = run(
        ROLLOUT_BLOCK,
        args=args,
        self=SimpleNamespace(args=args, processing_class=SimpleNamespace(eos_token_id=EOS)),
        postprocessed_responses=RESPONSES,
        responses=RESPONSES,
        sequence_lengths=lengths["sequence_length"],
        logprobs=given["old_logprobs"].clone(),
        ref_logprobs=given["ref_logprobs"].clone(),
        values=given["values"].clone(),
        scores=given["scores"].clone(),
    )
    names = ("padding_mask", "padding_mask_p1", "scores", "kl", "rewards", "advantages", "returns")
    return {name: after[name] for name in names}


def loss(given: dict[str, Tensor], masks: dict[str, Tensor]) -> dict[str, Tensor]:
    """Loss, its parts, statistics and gradients of one microbatch."""
    logits = given["logits"].clone().requires_grad_(True)
    values = given["new_values"].clone().requires_grad_(True)
    padded = torch.nn.functional.pad(values, (PROMPT - 1, 1)).unsqueeze(-1)  # of every position
    everything = slice(None)
    space = {
        "args": SimpleNamespace(**LOSS),
        "logits": logits[:, PROMPT - 1 : -1].clone(),
        "vpred_temp": padded,
        "context_length": PROMPT,
        "mb_responses": RESPONSES,
        "mb_logprobs": given["old_logprobs"].masked_fill(masks["padding_mask"], ppo_trainer.INVALID_LOGPROB),
        "mb_values": given["values"],
        "mb_return": given["returns"],
        "mb_advantage": given["advantages"],
        "micro_batch_inds": everything,
        "padding_mask": masks["padding_mask"],
        "padding_mask_p1": masks["padding_mask_p1"],
    }
    after = run(LOSS_BLOCK, **space)
    after |= run(STATISTICS_BLOCK, **{name: after[name] for name in after if not name.startswith("__")})
    after["loss"].backward()
    names = ("new_logprobs", "pg_loss", "vf_loss", "loss", "pg_clipfrac", "vf_clipfrac", "entropy")
    return {name: after[name].detach() for name in names} | {"logits_grad": logits.grad, "values_grad": values.grad}


def functions(given: dict[str, Tensor], mask: Tensor) -> dict[str, Tensor]:
    """TRL's functions alone."""
    values, scaled = given["values"], given["logits"] / LOSS["temperature"]
    attention_mask = torch.cat([QUERIES, RESPONSES], dim=1) != PAD
    return {
        "selective_log_softmax": ppo_trainer.selective_log_softmax(scaled[:, PROMPT - 1 : -1], RESPONSES),
        "masked_mean": ppo_trainer.masked_mean(values, mask),
        "masked_var": ppo_trainer.masked_var(values, mask),
        "masked_whiten": ppo_trainer.masked_whiten(values, mask),
        "masked_whiten_keeping_the_mean": ppo_trainer.masked_whiten(values, mask, shift_mean=False),
        "truncate_response": ppo_trainer.truncate_response(EOS, PAD, RESPONSES),
        "truncate_response_at_2": ppo_trainer.truncate_response(2, PAD, RESPONSES),
        "first_true_indices": ppo_trainer.first_true_indices(RESPONSES == PAD),
        "position_ids": attention_mask.cumsum(1) - attention_mask.long(),  # as TRL's `forward` and `get_reward`
        "last_token": ppo_trainer.first_true_indices(RESPONSES == PAD) - 1 + PROMPT,
    }


def options() -> dict[str, Any]:
    """Every setting of TRL's `PPOConfig` with its default, and the arguments of its trainer."""
    with tempfile.TemporaryDirectory() as folder:
        config = ppo_trainer.PPOConfig(output_dir=folder, use_cpu=True)
    chosen = {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}
    chosen = {name: getattr(value, "value", value) for name, value in chosen.items()}
    chosen |= {name: None for name, value in chosen.items() if not isinstance(value, bool | int | float | str)}
    arguments = inspect.signature(ppo_trainer.PPOTrainer.__init__).parameters
    return dict.fromkeys(arguments) | chosen | {"output_dir": None}


def trainer() -> list[str]:
    """Every public name of TRL's trainer, and what its `__init__` sets."""
    kind = ppo_trainer.PPOTrainer
    set_in = re.findall(r"\bself\.([a-z]\w*)(?:, self\.(\w+))? = ", inspect.getsource(kind.__init__))
    names = {*dir(kind), *itertools.chain.from_iterable(set_in)}
    return sorted(name for name in names if name and not name.startswith("_"))


def main() -> None:
    torch.set_default_dtype(torch.float64)  # else TRL corrects the variance in float32
    given = inputs()
    rollouts = {
        f"{estimator}{' whitened' * whiten}": rollout(given, estimator, whiten)
        for estimator in ("k1", "k3")
        for whiten in (False, True)
    }
    masks = rollouts["k1"]
    answers = {
        "given": given,
        "functions": functions(given, ~masks["padding_mask"]),
        "rollouts": rollouts,
        "loss": loss(given, masks),
    }
    report = {"settings": {**SETTINGS, **LOSS}, **answers, "options": options(), "trainer": trainer()}
    record(FILE, "testcases/benchmarks/record_trl.py", report)


def record(file: Path, recorded_by: str, report: dict[str, Any]) -> None:
    """Write what TRL answered, each list of numbers on one line."""
    versions = {"trl": trl.__version__, "torch": torch.__version__, "recorded_by": recorded_by}
    text = json.dumps(versions | report, default=Tensor.tolist, indent=1)
    compact = re.sub(r"\[\s*([^\[\]{}]*?)\s*\]", lambda found: "[" + " ".join(found[1].split()) + "]", text)
    file.write_text(compact + "\n", encoding="utf-8")
    print(f"{file}: TRL {trl.__version__}, {file.stat().st_size} bytes")


if __name__ == "__main__":
    main()
