"""Live objects for the capstone: tables and scripts instead of neural networks, over the words of the little world."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
import torch._dynamo  # The first optimiser loads it, which takes seconds: not in a student's time.
from torch import Tensor, nn

from tiny_models.gold import gold_score
from tiny_models.language import VOCABULARY

# The tables are on the CPU, and have to stay there on a machine with a GPU.
os.environ.setdefault("ACCELERATE_USE_CPU", "true")

PAD, EOS, UNK, FIRST_WORD = 0, 1, 2, 3
WORDS = ("<pad>", "<eos>", "<unk>", *VOCABULARY)


class Words:
    """The tokenizer of the little world without transformers, which takes seconds to import."""

    pad_token_id, eos_token_id, unk_token_id = PAD, EOS, UNK

    def __len__(self) -> int:
        return len(WORDS)

    def __call__(
        self, text: str | list[str], padding: bool = False, return_tensors: str | None = None, **rest: Any
    ) -> dict[str, Any]:
        """Ids and attention mask of one text, or of several; they are padded on the left."""
        texts = [text] if isinstance(text, str) else text
        rows = [[WORDS.index(word) if word in WORDS else UNK for word in one.split()] for one in texts]
        width = max(map(len, rows), default=0) if padding else 0
        masks = [[0] * (width - len(row)) + [1] * len(row) for row in rows]
        found: dict[str, Any] = {
            "input_ids": [[PAD] * (width - len(row)) + row for row in rows],
            "attention_mask": masks,
        }
        if return_tensors == "pt":
            return {name: torch.tensor(ids) for name, ids in found.items()}
        return {name: ids[0] for name, ids in found.items()} if isinstance(text, str) else found

    def decode(self, ids: Any, skip_special_tokens: bool = False, **rest: Any) -> str:
        """The text of one row of ids: a tensor, a list or a single number."""
        numbers = torch.as_tensor(ids).flatten().tolist()
        return " ".join(WORDS[int(one)] for one in numbers if not (skip_special_tokens and one < FIRST_WORD))

    def batch_decode(self, rows: Any, skip_special_tokens: bool = False, **rest: Any) -> list[str]:
        return [self.decode(row, skip_special_tokens) for row in rows]


class TablePolicy(nn.Module):
    """Speaks like a causal language model of Hugging Face: logits = gain * table[token] + places[position].

    `forwards` remembers the first token of each row of every batch, and whether it was in train mode.
    """

    def __init__(self, table: Tensor, places: Tensor | None = None) -> None:
        super().__init__()
        self.table = nn.Parameter(table.clone())
        self.places = None if places is None else nn.Parameter(places.clone())
        self.config = SimpleNamespace(max_position_embeddings=64 if places is None else len(places))
        self.forwards: list[Any] = []
        self.gain = 1.0

    @property
    def device(self) -> torch.device:
        return self.table.device

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        past_key_values: int | None = None,
        use_cache: bool = True,
        logits_to_keep: int = 0,
    ) -> SimpleNamespace:
        if past_key_values is None:
            self.forwards.append([self.training, *input_ids[:, 0].tolist()])
        seen = past_key_values or 0
        logits = self.gain * self.table[input_ids]
        if self.places is not None:
            columns = torch.arange(seen, seen + input_ids.shape[1]).expand_as(input_ids)
            logits = logits + self.places[columns if position_ids is None else position_ids]
        return SimpleNamespace(logits=logits[:, -logits_to_keep:], past_key_values=seen + input_ids.shape[1])


class DroppingPolicy(TablePolicy):
    """In train mode half of the logits are dropped, as chance has it."""

    def __init__(self, table: Tensor, places: Tensor | None = None) -> None:
        super().__init__(table, places)
        self.dropout = nn.Dropout(0.5)

    def forward(self, *given: Any, **named: Any) -> SimpleNamespace:
        output = super().forward(*given, **named)
        return SimpleNamespace(logits=self.dropout(output.logits), past_key_values=output.past_key_values)


class ScriptedPolicy(TablePolicy):
    """Answers each prompt with the response of a script, for certain; "<eos>" has to be written there."""

    def __init__(self, script: dict[str, str]) -> None:
        super().__init__(torch.zeros(len(WORDS), len(WORDS), dtype=torch.float64))
        self.script = {prompt: [WORDS.index(word) for word in text.split()] for prompt, text in script.items()}

    def forward(self, input_ids: Tensor, attention_mask: Tensor, past_key_values: Any = None, **rest: Any) -> Any:
        ids = input_ids if past_key_values is None else torch.cat([past_key_values, input_ids], dim=1)
        logits = torch.zeros(*input_ids.shape, len(WORDS), dtype=torch.float64)
        for row, real in zip(range(len(ids)), attention_mask, strict=True):
            text = Words().decode(ids[row][real[: ids.shape[1]]])
            prompt = next(one for one in self.script if text.startswith(one))
            spoken = len(text.split()) - len(prompt.split())
            logits[row, -1, self.script[prompt][spoken] if spoken < len(self.script[prompt]) else PAD] = 1000.0
        return SimpleNamespace(logits=logits, past_key_values=ids)


class TableBackbone(nn.Module):
    """A body without a head: the hidden state of a token is its row of a table."""

    def __init__(self, table: Tensor) -> None:
        super().__init__()
        self.table = nn.Parameter(table.clone())
        self.config = SimpleNamespace(hidden_size=table.shape[1])

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, position_ids: Tensor | None = None, use_cache: bool = True
    ) -> Any:
        return SimpleNamespace(last_hidden_state=self.table[input_ids])


def _neighbour(lesson: Any, name: str) -> ModuleType:
    """Another lesson of the same stack: in the capstone all of them are the student's."""
    return import_module(f"{lesson.__name__.rpartition('.')[0]}.{name}")


def fitted_of(
    lesson: Any,
    table: Tensor,
    input_ids: Tensor,
    attention_mask: Tensor,
    loss_mask: Tensor,
    learning_rate: float,
    batch_size: int,
    seed: int = 0,
    places: Tensor | None = None,
    gain: float = 1.0,
) -> dict[str, Any]:
    """`train_sft` of a table policy: losses, the table afterwards, and what each forward was given."""
    policy = TablePolicy(table, places).eval()  # as `from_pretrained` leaves a model
    policy.gain = gain
    config = lesson.SFTConfig(learning_rate, batch_size, seed)
    losses = lesson.train_sft(policy, lesson.Demonstrations(input_ids, attention_mask, loss_mask), config)
    return {
        "losses": losses,
        "table": policy.table.detach(),
        "first_tokens": [batch[1:] for batch in policy.forwards],
        "in_train_mode": [batch[0] for batch in policy.forwards],
        "left_in_train_mode": policy.training,
    }


def _modules(**models: nn.Module) -> dict[str, nn.Module]:
    """Each model and its parts by name, such as "policy" and "policy.dropout"."""
    return {
        f"{name}.{path}".rstrip("."): part for name, model in models.items() for path, part in model.named_modules()
    }


def _modes(modules: dict[str, nn.Module]) -> dict[str, bool]:
    return {name: module.training for name, module in modules.items()}


def judged_of(
    lesson: Any,
    prompts: tuple[str, ...],
    script: dict[str, str] | None = None,
    policy: Tensor | None = None,
    reference: Tensor | None = None,
    places: Tensor | None = None,
    twice: bool = False,
    in_train_mode: tuple[str, ...] = (),
    **settings: Any,
) -> dict[str, Any]:
    """`evaluate_policy` of a scripted policy or of a table; without `reference` the reference is uniform.

    The proxy gives 1/8 for each token of the response, and 1 for each token of the prompt. `in_train_mode`: these
    come in train mode ("policy", "reference", and their ".dropout", which then drops logits), the others in eval mode.
    """
    actor = ScriptedPolicy(script) if script is not None else DroppingPolicy(policy, places)
    uniform = torch.zeros(len(WORDS), len(WORDS), dtype=torch.float64)
    frozen = DroppingPolicy(uniform if reference is None else reference, places)
    modules = _modules(policy=actor, reference=frozen)
    for name, module in modules.items():
        module.training = name in in_train_mode
    before = _modes(modules)
    settings = {"stop_token_ids": (EOS,), "pad_token_id": PAD, "max_new_tokens": 10, **settings}
    config = _neighbour(lesson, "lesson09_ppo_trainer").PPOConfig(**settings)
    padding: list[int] = []

    def score(input_ids: Tensor, attention_mask: Tensor, prompt_length: int) -> Tensor:
        real = attention_mask.double()
        padding.extend(input_ids[real == 0].tolist())
        return real[:, :prompt_length].sum(dim=1) + real[:, prompt_length:].sum(dim=1) / 8

    for _ in range(2 if twice else 1):
        found = lesson.evaluate_policy(actor, frozen, score, list(prompts), Words(), config)
    return {
        "gold": found.gold,
        "proxy": found.proxy,
        "valid": found.valid,
        "kl": found.kl,
        "responses": " | ".join(found.responses),
        "responses_are_a": type(found.responses).__name__,
        "pads_with_the_id_of_the_config": set(padding) <= {config.pad_token_id},
        "left_in_another_mode": [name for name, mode in _modes(modules).items() if mode != before[name]],
    }


SEEDED = 271_828
"""The seed of the global generator when a run starts: no run has it as its own."""


class Stopped(Exception):
    """Ends a run on its way."""


def tuned_of(
    lesson: Any,
    sft: Tensor,
    reward_body: Tensor,
    reward_head: Tensor,
    prompts: tuple[str, ...],
    frozen: bool = False,
    resume_after: int | None = None,
    **settings: Any,
) -> dict[str, Any]:
    """`train_policy` from these two stages: what came out, and what became of what went in.

    `frozen`: the SFT model of stage 1 is as after `freeze`; otherwise it is trainable, and in train mode.
    `resume_after`: a first run is stopped after so many updates, and its checkpoint given to a second one, which is
    reported.
    """
    body = TableBackbone(reward_body)
    with torch.random.fork_rng(devices=[]):
        reward_model = _neighbour(lesson, "lesson02_reward_model").RewardModel(body)
    with torch.no_grad():
        reward_model.head.weight.copy_(reward_head.unsqueeze(0))
        reward_model.head.bias.fill_(0.25)
    stage1 = SimpleNamespace(policy=DroppingPolicy(sft).requires_grad_(not frozen).train(not frozen), losses=[])
    modules = _modules(sft=stage1.policy)
    before = _modes(modules)
    stage2 = SimpleNamespace(reward_model=reward_model, history=[], accuracy=1.0)
    settings = {"stop_token_ids": (EOS,), "pad_token_id": PAD, "max_new_tokens": 4, "num_minibatches": 1, **settings}
    config = _neighbour(lesson, "lesson09_ppo_trainer").PPOConfig(**settings)
    calls: list[int] = []

    def on_update(trainer: Any) -> None:
        calls.append(trainer.updates_done)

    with tempfile.TemporaryDirectory() as top:

        def save_and_stop(trainer: Any) -> None:
            if trainer.updates_done == resume_after:
                trainer.save_checkpoint(top)
                raise Stopped

        options = {}
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(SEEDED)
            if resume_after is not None:
                with suppress(Stopped):
                    lesson.train_policy(stage1, stage2, config, Words(), list(prompts), save_and_stop)
                options["resume_from"] = Path(top)
            stage3 = lesson.train_policy(stage1, stage2, config, Words(), list(prompts), on_update, **options)
            seeds_the_global_generator = torch.initial_seed() != SEEDED
    trainer = stage3.trainer
    model = trainer.accelerator.unwrap_model(trainer.model)
    names = ("score", "kl", "entropy", "value_loss", "grad_norm")
    history = {name: torch.tensor([one[name] for one in trainer.history]) for name in names}
    return {
        "policy": stage3.policy.table.detach(),
        "policy_of_the_trainer": trainer.policy.table.detach(),
        "critic_body": model.value_model.backbone.table.detach(),
        "critic_head": model.value_model.head.weight.detach()[0],
        "reference": trainer.ref_model.table.detach(),
        "sft_afterwards": stage1.policy.table.detach(),
        "sft_requires_gradients_afterwards": stage1.policy.table.requires_grad,
        "sft_left_in_another_mode": [name for name, mode in _modes(modules).items() if mode != before[name]],
        "seeds_the_global_generator": seeds_the_global_generator,
        "reward_requires_gradients_afterwards": any(weight.requires_grad for weight in reward_model.parameters()),
        "reward_body_afterwards": reward_model.backbone.table.detach(),
        "reward_head_afterwards": reward_model.head.weight.detach()[0],
        "reward_bias_afterwards": reward_model.head.bias.item(),
        "on_update": calls,
        "updates_done": trainer.updates_done,
        **history,
    }


def gold_of_texts(prompts: list[str], responses: list[str]) -> list[float]:
    """The truth as a reward function: what training must never see."""
    return [gold_score(prompt, response) for prompt, response in zip(prompts, responses, strict=True)]
