"""Rebuild the small models that the course ships, so that lessons and notebooks need not train them first.

make checkpoints
"""

from __future__ import annotations

import json
import shutil

import torch
import transformers

from solutions.apps.stages import train_reward_stage, train_sft_stage
from tiny_models.checkpoints import DIRECTORY, MANIFEST, REWARD_MODEL, SFT, digests, world_digest
from tiny_models.presets import find_preset
from tiny_models.tokenizer import build_tokenizer

SEED = 0


def rebuild() -> None:
    """Train the SFT and reward models of preset `tiny` with seed 0 and write them with their manifest."""
    preset, tokenizer = find_preset("tiny"), build_tokenizer()
    torch.set_num_threads(1)
    stage1 = train_sft_stage(preset, tokenizer, SEED)
    stage2 = train_reward_stage(stage1.policy, preset, tokenizer, SEED)
    for directory, model in ((SFT, stage1.policy), (REWARD_MODEL, stage2.reward_model)):
        shutil.rmtree(directory, ignore_errors=True)
        model.save_pretrained(directory)
        tokenizer.save_pretrained(directory)
    manifest = {
        "command": "make checkpoints",
        "preset": preset.name,
        "seed": SEED,
        "world": world_digest(),
        "torch": torch.__version__.split("+")[0],
        "transformers": transformers.__version__,
        "sft_loss": round(stage1.losses[-1], 4),
        "reward_model_accuracy": round(stage2.accuracy, 4),
        "files": digests(),
    }
    MANIFEST.write_text(json.dumps(manifest, indent=2) + "\n")
    print(f"wrote {DIRECTORY.relative_to(DIRECTORY.parents[1])}: held-out accuracy {stage2.accuracy:.3f}")


if __name__ == "__main__":
    rebuild()
