"""The small trained models that come with the course: where they lie, and what they were made from.

SFT           a GPT-2, for AutoModelForCausalLM.from_pretrained and AutoTokenizer.from_pretrained
REWARD_MODEL  for RewardModel.from_pretrained of lesson 2
"""

from __future__ import annotations

import hashlib
import random
from pathlib import Path

from .gold import gold_score
from .language import VOCABULARY, sample_prompts, sample_review
from .preferences import label_pair

DIRECTORY = Path(__file__).parent / "checkpoints"
SFT = DIRECTORY / "sft"
REWARD_MODEL = DIRECTORY / "reward_model"
MANIFEST = DIRECTORY / "manifest.json"


def world_digest() -> str:
    """A fingerprint of the language, the truth and the annotators: another one means the models are out of date."""
    rng = random.Random(0)
    lines = list(VOCABULARY)
    for prompt in sample_prompts(200, rng):
        first, second = sample_review(prompt, rng), sample_review(prompt, rng)
        lines += [prompt, *label_pair(prompt, first, second, rng), str(gold_score(prompt, first))]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def digests() -> dict[str, str]:
    """SHA-256 of every file of the two models, by its path below the folder of checkpoints."""
    files = sorted(file for directory in (SFT, REWARD_MODEL) for file in directory.rglob("*") if file.is_file())
    return {file.relative_to(DIRECTORY).as_posix(): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}
