"""Scenarios of `evaluate_responses`."""

import importlib
from typing import Any

import torch
from torch import Tensor, nn

from testcases.harness.doubles.models import TinyLM

from .scenarios_experience import plain
from .scenarios_models import Adapted, Critic, Table, actor_critic, modes_of, tiny_actor_critic


def _config(lesson: Any, options: dict[str, Any]) -> Any:
    """Of a trainer, which has settings of its own, such as the coefficient that its controller starts from."""
    config = importlib.import_module(lesson.RolloutConfig.__module__).PPOConfig
    return config(**{"stop_token_ids": (1,), "pad_token_id": 0, **options})


def _evaluate(
    lesson: Any, model: nn.Module, reference: nn.Module | None, score: Any, kl_coef: float = 0.1, **given: Any
) -> Any:
    """`evaluate_responses`; prompts, responses and settings are given by their names."""
    prompts = [given.pop(name) for name in ("input_ids", "attention_mask")]
    written = lesson.Generation(*(given.pop(name) for name in ("responses", "log_probs", "mask")))
    return lesson.evaluate_responses(model, reference, score, *prompts, written, _config(lesson, given), kl_coef)


def evaluated(
    lesson: Any, scores: Tensor, reference: Tensor, worth: Tensor, kl_coef: float, **given: Any
) -> dict[str, Tensor]:
    """Evaluate responses: `reference` is the table of the reference's logits by last token, `worth` that of values.
    Before that, the same rows in reverse order."""
    model = actor_critic(lesson, Table(torch.zeros_like(reference)), Critic(worth)).train()
    model.training = False  # as a whole; what is inside is in train mode
    frozen = Table(reference).eval()
    rows = ("input_ids", "attention_mask", "responses", "log_probs", "mask")
    before = {name: value.flip(0) if name in rows else value for name, value in given.items()}
    _evaluate(lesson, model, frozen, lambda *text, **named: scores.flip(0), kl_coef, **before)
    return plain(_evaluate(lesson, model, frozen, lambda *text, **named: scores.clone(), kl_coef, **given))


def seen_by_score(lesson: Any, responses: Tensor, broken: str | None = None, **given: Any) -> dict[str, Any]:
    """What the reward model is asked, and how often; the mode of actor, critic and reference afterwards.

    `broken`: the "critic", the "reference" or the "score", which raises an error.
    """
    asked = []

    def break_down(*given: Any, **named: Any) -> Tensor:
        raise ArithmeticError("broken on purpose")

    def score(input_ids: Any, attention_mask: Any, prompt_length: Any) -> Tensor:
        asked.append((input_ids, attention_mask, prompt_length))
        return break_down() if broken == "score" else torch.zeros(len(responses))

    table = torch.zeros(6, 6)
    parts = {"critic": Critic(table[0]), "reference": Table(table)}
    if broken in parts:
        parts[broken].forward = break_down
    reference = parts["reference"].train()
    model = actor_critic(lesson, Table(table), parts["critic"]).train()
    for module in (model.policy.inner, model.value_model):  # each module has a mode of its own
        module.training = False
    before, reference_before = modes_of(model.modules()), modes_of(reference.modules())
    names, shown = _attributes(model, reference), {}
    zeros = torch.zeros(responses.shape)
    try:
        found = _evaluate(lesson, model, reference, score, responses=responses, log_probs=zeros, **given)
        shown = dict(zip(("input_ids", "attention_mask", "prompt_length"), asked[-1] if asked else (), strict=False))
        shown |= {"times asked": len(asked)}
        shown |= {"can be used for training": not any(tensor.is_inference() for tensor in plain(found).values())}
    except ArithmeticError:
        if not broken:
            raise
    return {
        **shown,
        "modes as before": torch.equal(before, modes_of(model.modules())),
        "mode of the reference as before": torch.equal(reference_before, modes_of(reference.modules())),
        "attributes as before": _attributes(model, reference) == names,
    }


def _attributes(*models: nn.Module) -> set[tuple[int, str]]:
    """The names of what models and their parts hold, without the notes of a table on its last call."""
    parts = [part for model in models for part in model.modules()]
    return {(id(part), name) for part in parts for name in vars(part) if name != "rows"}


def evaluated_by_its_own_base(
    lesson: Any,
    input_ids: Tensor,
    responses: Tensor,
    table: Tensor,
    base: Tensor,
    by_name: bool = False,
    **settings: Any,
) -> dict[str, Any]:
    """Evaluate a LoRA policy without a reference model: what follows from its base (or, `by_name`, from its adapter
    "reference"), and whether its own adapter is on afterwards. The critic shares the policy's backbone: its values are
    0 with that adapter, and 1 without."""
    policy = Adapted(table, base, by_name)

    class Shares(Critic):
        def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
            is_own = policy.is_on and policy.active_adapter == "default"
            return super().forward(input_ids, attention_mask) + (0.0 if is_own else 1.0)

    zeros = torch.zeros(responses.shape, dtype=table.dtype)
    found = _evaluate(
        lesson,
        actor_critic(lesson, policy, Shares(torch.zeros_like(table[0]))),
        None,
        lambda *text, **named: zeros[:, 0],
        input_ids=input_ids,
        attention_mask=input_ids > -1,
        responses=responses,
        log_probs=zeros,
        mask=torch.ones_like(responses, dtype=torch.bool),
        **settings,
    )
    names = ("ref_log_probs", "values", "rewards")
    return {
        **{name: getattr(found, name) for name in names},
        "adapter on": policy.is_on and policy.active_adapter == "default",
    }


def lm_evaluated(lesson: Any, model: int, kl_coef: float, shared: bool = False, **given: Any) -> dict[str, Tensor]:
    """Evaluate responses with tiny language models: absolute positions, padding on both sides."""
    reference = TinyLM(model + 1).eval()
    return plain(_evaluate(lesson, tiny_actor_critic(lesson, model, shared), reference, mean_token, kl_coef, **given))


def mean_token(input_ids: Tensor, attention_mask: Tensor, prompt_length: int) -> Tensor:
    """A reward function of the whole text: the mean number of its real tokens, minus 3."""
    return (input_ids * attention_mask).sum(dim=1) / attention_mask.sum(dim=1).double() - 3
