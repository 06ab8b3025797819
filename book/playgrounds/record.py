"""Record the runs of the over-optimization playground: python -m book.playgrounds.record (some minutes).

From the shipped SFT and reward model, one PPO run for each KL coefficient, evaluated on the way.
"""

import copy
import io
import json
import random
from contextlib import redirect_stderr
from typing import Any

import torch
from transformers import AutoModelForCausalLM
from transformers.utils import logging

from ppo_by_hand.core.config import PPOConfig
from ppo_by_hand.core.texts import make_scorer
from solutions.lesson02_reward_model import RewardModel
from solutions.lesson07_actor_critic import PolicyAndValue, critic_from_reward_model, make_reference
from solutions.lesson09_ppo_trainer import PPOTrainer
from solutions.lesson12_capstone import Evaluation, evaluate_policy
from tiny_models import checkpoints
from tiny_models.language import sample_prompts
from tiny_models.presets import find_preset
from tiny_models.tokenizer import build_tokenizer

from . import RECORDED

KL_COEFS = (0.0, 0.01, 0.02, 0.04, 0.08, 0.15, 0.3, 0.6)
EVALUATED_AT = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 18, 21, 24, 28, 32, 36, 40)
TOKENIZER = build_tokenizer()
PROMPTS = sample_prompts(160, random.Random(1))
"""That each evaluation answers."""
TASKS = sample_prompts(40 * 64, random.Random(3))
"""That the runs are trained on."""
SETTINGS = {
    "stop_token_ids": (TOKENIZER.eos_token_id,),
    "pad_token_id": TOKENIZER.pad_token_id,
    "max_new_tokens": find_preset("tiny").max_new_tokens,
    "num_updates": EVALUATED_AT[-1],
    "batch_size": 64,
    "num_epochs": 2,
    "learning_rate": 1.4e-3,
    "max_update_kl": 0.02,  # an update ends early once the policy has moved this far
}
SHOWN = 3
"""So many responses of each evaluation are kept, to be read."""


def main() -> None:
    torch.set_num_threads(1)
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    runs = []
    for kl_coef in KL_COEFS:
        trace = _run(kl_coef)
        runs.append({"kl_coef": kl_coef} | _numbers(trace))
        print(f"kl_coef {kl_coef}: gold {trace[-1].gold:.2f}, proxy {trace[-1].proxy:.2f}, KL {trace[-1].kl:.1f}")
    recorded = {"updates": [0, *EVALUATED_AT], "prompts": PROMPTS[:SHOWN], "runs": runs}
    RECORDED.write_text(json.dumps(recorded, separators=(",", ":")).replace('{"kl', '\n{"kl') + "\n", "utf-8")


def _run(kl_coef: float) -> list[Evaluation]:
    """Evaluations of one run: of the SFT model, and after each update of EVALUATED_AT."""
    policy: Any = AutoModelForCausalLM.from_pretrained(checkpoints.SFT).eval()
    reward = RewardModel.from_pretrained(checkpoints.REWARD_MODEL)
    config = PPOConfig(kl_coef=kl_coef, **SETTINGS)
    score = make_scorer(reward)

    def evaluated(tuned: Any) -> Evaluation:
        return evaluate_policy(tuned, policy, score, PROMPTS, TOKENIZER, config)

    trace = [evaluated(policy)]

    def on_update(trainer: Any) -> None:
        if trainer.updates_done in EVALUATED_AT:
            trace.append(evaluated(trainer.policy))

    def slowly(updates_done: int) -> float:
        """So that the path is seen in small steps."""
        return min((updates_done + 1) / 13, 1.0 - updates_done / config.num_updates)

    with redirect_stderr(io.StringIO()):  # without a penalty the trainer's own checks complain, rightly
        model = PolicyAndValue(copy.deepcopy(policy), critic_from_reward_model(reward))
        PPOTrainer(model, reward, make_reference(policy), config, TOKENIZER, schedule=slowly).train(TASKS, on_update)
    return trace


def _numbers(trace: list[Evaluation]) -> dict[str, Any]:
    names = ("gold", "proxy", "kl", "valid")
    numbers: dict[str, Any] = {name: [round(getattr(point, name), 4) for point in trace] for name in names}
    return numbers | {"responses": [list(point.responses[:SHOWN]) for point in trace]}


if __name__ == "__main__":
    main()
