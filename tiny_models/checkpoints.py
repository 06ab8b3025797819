"""The small trained models that come with the course: where they lie, and what they were made from.

SFT           a GPT-2, for AutoModelForCausalLM.from_pretrained and AutoTokenizer.from_pretrained
REWARD_MODEL  for RewardModel.from_pretrained of lesson 2
POLICY        the SFT model after three updates of PPO, like SFT
CRITIC        the critic of that moment, in the files of a reward model: lesson 7's critic_from_reward_model reads it
ONE_RESPONSE  what these four say of one response, token by token: the example of map, lessons, notebooks, playground
"""

from __future__ import annotations

import hashlib
import json
import random
from pathlib import Path
from typing import Any

from .gold import gold_score
from .language import VOCABULARY, sample_prompts, sample_review
from .preferences import label_pair

DIRECTORY = Path(__file__).parent / "checkpoints"
SFT = DIRECTORY / "sft"
REWARD_MODEL = DIRECTORY / "reward_model"
POLICY = DIRECTORY / "policy"
CRITIC = DIRECTORY / "critic"
ONE_RESPONSE = DIRECTORY / "one_response.json"
MANIFEST = DIRECTORY / "manifest.json"

PROMPT = "review the film :"
RESPONSE = "the film was superb but the plot was weak ."


def one_response() -> dict[str, Any]:
    """`prompt`, `tokens` of the response (EOS included), and for each token `log_probs` of the policy, `ref_log_probs`,
    and the critic's `values` before it; the `score` of the whole, and `kl_coef` of the run."""
    return json.loads(ONE_RESPONSE.read_text("utf-8"))


def world_digest() -> str:
    """A fingerprint of the language, the truth and the annotators: another one means the models are out of date."""
    rng = random.Random(0)
    lines = list(VOCABULARY)
    for prompt in sample_prompts(200, rng):
        first, second = sample_review(prompt, rng), sample_review(prompt, rng)
        lines += [prompt, *label_pair(prompt, first, second, rng), str(gold_score(prompt, first))]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def digests() -> dict[str, str]:
    """SHA-256 of every file but the manifest, by its path below the folder of checkpoints."""
    files = sorted(file for file in DIRECTORY.rglob("*") if file.is_file() and file != MANIFEST)
    return {file.relative_to(DIRECTORY).as_posix(): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}
