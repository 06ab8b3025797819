"""Live objects for the capstone: tables and scripts instead of networks, over the words of the toy environment."""

import itertools
import os
import tempfile
from contextlib import suppress
from importlib import import_module
from itertools import accumulate
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
import torch._dynamo  # The first optimizer loads it, which takes seconds: not in a student's time.
from torch import Tensor, nn

from testcases.harness.doubles.models import Cache, HuggingFaceModel, Output, TablePolicy, Words, last_places
from tiny_models.language import VOCABULARY

# The tables are on the CPU, and have to stay there on a machine with a GPU.
os.environ.setdefault("ACCELERATE_USE_CPU", "true")

PAD, EOS = 0, 1
WORDS = ("<pad>", "<eos>", "<unk>", *VOCABULARY)
TOKENIZER = Words(WORDS)


def uniform() -> Tensor:
    return torch.zeros(len(WORDS), len(WORDS), dtype=torch.float64)


class WatchedPolicy(TablePolicy):
    """Its table counts `gain` times. `forwards`: of each with a gradient its mode, then the first token of each row.

    Its dropout drops nothing, and has a mode all the same.
    """

    def __init__(self, table: Tensor, places: Tensor | None = None, gain: float = 1.0) -> None:
        super().__init__(table, places)
        self.gain, self.dropout = gain, nn.Dropout(0.0)
        self.forwards: list[list[Any]] = []

    def logits_of(self, input_ids: Tensor) -> Tensor:
        if torch.is_grad_enabled():
            self.forwards.append([self.training and self.dropout.training, *input_ids[:, 0].tolist()])
        return self.gain * super().logits_of(input_ids)


class DroppingPolicy(TablePolicy):
    """In train mode half of the logits are dropped, as chance has it."""

    def __init__(self, table: Tensor, places: Tensor | None = None) -> None:
        super().__init__(table, places)
        self.dropout = nn.Dropout(0.5)

    def forward(self, *given: Any, past_key_values: Any = None, **named: Any) -> Output:
        output = super().forward(*given, past_key_values=past_key_values, **named)
        return Output(**{**vars(output), "logits": self.dropout(output.logits)})


class ScriptedPolicy(TablePolicy):
    """Answers each prompt with the response of a script, for certain; "<eos>" has to be written there."""

    def __init__(self, script: dict[str, str]) -> None:
        super().__init__(uniform())
        self.script = {prompt: TOKENIZER(text)["input_ids"] for prompt, text in script.items()}

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        past_key_values: Any = None,
        logits_to_keep: int | Tensor = 0,
        **rest: Any,
    ) -> Output:
        cache, new = Cache() if past_key_values is None else past_key_values, input_ids[:, None, :, None]
        ids = cache.update(new, new, 0)[0][:, 0, :, 0]
        logits = torch.zeros(*input_ids.shape, len(WORDS), dtype=torch.float64)
        for row, column in itertools.product(*map(range, input_ids.shape)):
            end = ids.shape[1] - input_ids.shape[1] + column + 1
            text = TOKENIZER.decode(ids[row, :end][attention_mask[row, :end].bool()])
            prompt = next((one for one in self.script if text.startswith(one)), None)
            if prompt is not None:
                spoken = len(text.split()) - len(prompt.split())
                token = self.script[prompt][spoken] if spoken < len(self.script[prompt]) else PAD
                logits[row, column, token] = 1000.0
        return Output(logits=last_places(logits, logits_to_keep), past_key_values=cache)


class TableBackbone(HuggingFaceModel):
    """A backbone without a head: the hidden state of a token is its row of a table."""

    def __init__(self, table: Tensor) -> None:
        super().__init__()
        self.table = nn.Parameter(table.clone())
        self.config = SimpleNamespace(hidden_size=table.shape[1])

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None, **ignored: Any) -> Output:
        hidden = self.table[input_ids]
        return Output(last_hidden_state=hidden, hidden_states=(hidden,))


def modules_of(**models: nn.Module) -> dict[str, nn.Module]:
    """Each model and its parts by name, such as "policy" and "policy.dropout"."""
    return {
        f"{name}.{path}".rstrip("."): part for name, model in models.items() for path, part in model.named_modules()
    }


def modes_of(modules: dict[str, nn.Module]) -> dict[str, bool]:
    return {name: module.training for name, module in modules.items()}


def changed_modes(modules: dict[str, nn.Module], before: dict[str, bool]) -> list[str]:
    return [name for name, mode in modes_of(modules).items() if mode != before[name]]


def _neighbor(lesson: Any, name: str) -> ModuleType:
    """Another lesson of the same set of modules."""
    return import_module(f"{lesson.__name__.rpartition('.')[0]}.{name}")


def _config(lesson: Any, **settings: Any) -> Any:
    settings = {"stop_token_ids": (EOS,), "pad_token_id": PAD, **settings}
    return _neighbor(lesson, "lesson09_ppo_trainer").PPOConfig(**settings)


def fitted_of(
    lesson: Any,
    table: Tensor,
    learning_rate: float,
    batch_size: int,
    seed: int = 0,
    places: Tensor | None = None,
    gain: float = 1.0,
    train_mode: bool = False,
    **data: Tensor,
) -> dict[str, Any]:
    """`train_sft` of a table policy: losses, the table afterwards, and the first token of each row of each batch.

    A batch may be read in parts, and in any order; `batches_apart`: no forward reads of two of them.
    """
    policy = WatchedPolicy(table, places, gain).train(train_mode)  # `from_pretrained` leaves a model in eval mode
    losses = lesson.train_sft(policy, lesson.Demonstrations(**data), lesson.SFTConfig(learning_rate, batch_size, seed))
    order = [token for _, *tokens in policy.forwards for token in tokens]
    ends = {*accumulate(len(batch) - 1 for batch in policy.forwards)}
    return {
        "losses": losses,
        "table": policy.table.detach(),
        "first_tokens": [sorted(order[start : start + batch_size]) for start in range(0, len(order), batch_size)],
        "batches_apart": ends.issuperset(range(batch_size, len(order), batch_size)),
        "in_train_mode": all(batch[0] for batch in policy.forwards),
        "left_in_train_mode": any(module.training for module in policy.modules()),
    }


def evaluation_of(
    lesson: Any,
    prompts: tuple[str, ...],
    script: dict[str, str] | None = None,
    places: Tensor | None = None,
    in_train_mode: tuple[str, ...] = (),
    **given: Any,
) -> dict[str, Any]:
    """`evaluate_policy` of a scripted policy or of a table, given as `policy`; the `reference` is uniform by default.

    The proxy gives 1/8 for each token of the response, and 1 for each token of the prompt. `in_train_mode`: these
    come in train mode ("policy", "reference", and their ".dropout", which then drops logits), the others in eval mode.
    """
    policy = ScriptedPolicy(script) if script is not None else DroppingPolicy(given.pop("policy"), places)
    reference = DroppingPolicy(given.pop("reference", uniform()), places)
    modules = modules_of(policy=policy, reference=reference)
    for name, module in modules.items():
        module.training = name in in_train_mode
    before = modes_of(modules)
    config = _config(lesson, **{"max_new_tokens": 10, **given})

    def score(input_ids: Tensor, attention_mask: Tensor, prompt_length: int) -> Tensor:
        real = attention_mask.double()
        return real[:, :prompt_length].sum(dim=1) + real[:, prompt_length:].sum(dim=1) / 8

    found = lesson.evaluate_policy(policy, reference, score, list(prompts), TOKENIZER, config)
    return {
        "gold": found.gold,
        "proxy": found.proxy,
        "valid": found.valid,
        "kl": found.kl,
        "responses": " | ".join(found.responses),
        "responses_are_a": type(found.responses).__name__,
        "left_in_another_mode": changed_modes(modules, before),
    }


SEEDED = 271_828
"""The seed of the global generator when a run starts: no run has it as its own."""


class Stopped(Exception):
    """Ends a run on its way."""


def tuned_of(
    lesson: Any,
    sft: Tensor,
    reward_backbone: Tensor,
    reward_head: Tensor,
    prompts: tuple[str, ...],
    frozen: bool = False,
    resume_after: int | None = None,
    **settings: Any,
) -> dict[str, Any]:
    """`train_policy` from these two stages: what came out, and what became of what went in.

    `frozen`: the SFT model of stage 1 is as after `freeze`; otherwise it is trainable, and in train mode.
    `resume_after`: a first run is stopped after so many updates, and its checkpoint given to a second one, which is
    reported; after 0 there is no checkpoint.
    """
    policy = DroppingPolicy(sft).requires_grad_(not frozen).train(not frozen)
    modules = modules_of(sft=policy)
    before = modes_of(modules)
    reward_model = _reward_model(lesson, reward_backbone, reward_head)
    stages = (SimpleNamespace(policy=policy), SimpleNamespace(reward_model=reward_model))
    config = _config(lesson, **{"max_new_tokens": 4, "num_minibatches": 1, **settings})
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEEDED)
        tuned, calls = _run(lesson, stages, config, list(prompts), resume_after)
        seeds_the_global_generator = torch.initial_seed() != SEEDED
    return {
        "policy": tuned.policy.table.detach(),
        **_report(tuned.trainer),
        "on_update": calls,
        "sft_afterwards": policy.table.detach(),
        "sft_requires_gradients_afterwards": policy.table.requires_grad,
        "sft_left_in_another_mode": changed_modes(modules, before),
        "seeds_the_global_generator": seeds_the_global_generator,
        "reward_requires_gradients_afterwards": any(weight.requires_grad for weight in reward_model.parameters()),
        "reward_backbone_afterwards": reward_model.backbone.table.detach(),
        "reward_head_afterwards": reward_model.head.weight.detach()[0],
    }


def _reward_model(lesson: Any, body: Tensor, head: Tensor) -> Any:
    with torch.random.fork_rng(devices=[]):
        reward_model = _neighbor(lesson, "lesson02_reward_model").RewardModel(TableBackbone(body))
    with torch.no_grad():
        reward_model.head.weight.copy_(head.unsqueeze(0))
    return reward_model


def _run(
    lesson: Any, stages: tuple[Any, ...], config: Any, prompts: list[str], resume_after: int | None
) -> tuple[Any, list[int]]:
    """What `train_policy` gives, and the updates that `on_update` was called after."""
    options, calls = {}, []
    with tempfile.TemporaryDirectory() as folder:

        def save_and_stop(trainer: Any) -> None:
            if trainer.updates_done == resume_after:
                trainer.save_checkpoint(folder)
                raise Stopped

        def on_update(trainer: Any) -> None:
            calls.append(trainer.updates_done)

        if resume_after is not None:
            with suppress(Stopped):
                if resume_after:
                    lesson.train_policy(*stages, config, TOKENIZER, prompts, save_and_stop)
            options["resume_from"] = Path(folder)
        return lesson.train_policy(*stages, config, TOKENIZER, prompts, on_update, **options), calls


def _report(trainer: Any) -> dict[str, Any]:
    """A trainer's models and numbers at the end."""
    model = trainer.accelerator.unwrap_model(trainer.model)
    names = ("score", "kl", "entropy", "value_loss", "grad_norm")
    return {
        "policy_of_the_trainer": trainer.policy.table.detach(),
        "critic_backbone": model.value_model.backbone.table.detach(),
        "critic_head": model.value_model.head.weight.detach()[0],
        "reference": trainer.ref_model.table.detach(),
        "updates_done": trainer.updates_done,
        **{name: torch.tensor([one[name] for one in trainer.history]) for name in names},
    }
