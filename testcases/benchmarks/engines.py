"""CTranslate2 as the sampler of a run on the CPU: how far its probabilities are from the policy's, in float32 and int8.

python -m testcases.benchmarks.engines     after pip install ctranslate2, which nothing else here needs
"""

import copy
import json
import random
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from ppo_by_hand import Generation, PolicyAndValue, PPOConfig, PPOTrainer, ValueModel, make_reference, quiet
from tiny_models.builders import build_causal_lm
from tiny_models.checkpoints import SFT
from tiny_models.language import sample_prompts

SHOWN = ("sampler_kl", "sampler_ratio_max", "first_ratio_max")


def engine(tokenizer: Any, kind: str, first_weights_only: bool = False) -> Callable[..., Generation]:
    """A sampler that converts the policy's weights for each rollout, or only once."""
    import ctranslate2
    from ctranslate2.converters import TransformersConverter

    kept: list[Any] = []

    def sampler(
        policy, input_ids, attention_mask, max_new_tokens, stop_token_ids, pad_token_id, temperature, generator
    ):
        if first_weights_only:
            kept.append(copy.deepcopy(policy))
            policy = kept[0]
        with tempfile.TemporaryDirectory() as folder:
            source, made = Path(folder, "source"), Path(folder, "made")
            policy.save_pretrained(source)
            tokenizer.save_pretrained(source)
            TransformersConverter(str(source)).convert(str(made), quantization=kind)
            file = made / "config.json"  # it refuses the special tokens that this tokenizer has not
            settings = json.loads(file.read_text())
            words = {name: settings[name] or tokenizer.eos_token for name in settings if name.endswith("_token")}
            file.write_text(json.dumps(settings | words))
            engine = ctranslate2.Generator(str(made), compute_type=kind, intra_threads=1)
        ctranslate2.set_random_seed(int(torch.randint(2**31, (), generator=generator)))
        rows = zip(input_ids, attention_mask, strict=True)
        answers = engine.generate_batch(
            [tokenizer.convert_ids_to_tokens(row[real.bool()].tolist()) for row, real in rows],
            max_length=max_new_tokens,
            min_length=0,
            sampling_topk=0,
            sampling_temperature=temperature,
            include_prompt_in_result=False,
            return_logits_vocab=True,
            end_token=tokenizer.convert_ids_to_tokens(list(stop_token_ids)),
            return_end_token=True,
        )
        tokens = [answer.sequences_ids[0] for answer in answers]
        found = [log_probs_of(one.logits[0], ids, temperature) for one, ids in zip(answers, tokens, strict=True)]
        return Generation.from_lists(tokens, found, pad_token_id)

    return sampler


def log_probs_of(logits: list[Any], ids: list[int], temperature: float) -> list[float]:
    """Of the sampled tokens; the engine also returns logits of the prompt's last positions."""
    rows = torch.from_numpy(numpy.stack([numpy.array(one) for one in logits[-len(ids) :]])).double()
    return (rows / temperature).log_softmax(-1)[torch.arange(len(ids)), torch.tensor(ids)].tolist()


def large_llama(tokenizer: Any) -> Any:
    """Random weights, three times as large as usual: far from uniform, and so coarse in 8 bits."""
    special = {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}
    policy = build_causal_lm("llama", len(tokenizer), n_layer=2, n_embd=64, n_head=4, seed=1, **special)
    with torch.no_grad():
        for weight in policy.parameters():
            weight.mul_(3.0 if weight.dim() > 1 else 1.0)
    return policy


def measure(policy: Any, tokenizer: Any, sampler: Callable[..., Generation]) -> list[dict[str, float]]:
    torch.manual_seed(0)
    model = PolicyAndValue(policy, ValueModel(make_reference(policy).base_model.requires_grad_(True)))
    tokens = {"stop_token_ids": (tokenizer.eos_token_id,), "pad_token_id": tokenizer.pad_token_id}
    settings = {"num_updates": 3, "batch_size": 64, "temperature": 0.8, "recompute_log_probs": True}
    config = PPOConfig(**tokens, **settings, importance_cap=2.0)

    def superb(prompts: list[str], responses: list[str]) -> list[float]:
        return [float(text.count("superb")) for text in responses]

    run = PPOTrainer(model, superb, make_reference(policy), config, tokenizer, sampler)
    return run.train(sample_prompts(64, random.Random(0)))


def main() -> None:
    quiet()
    tokenizer = AutoTokenizer.from_pretrained(SFT)
    for name, stale in (("float32", False), ("int8", False), ("float32", True)):
        policies = {"GPT-2, trained": AutoModelForCausalLM.from_pretrained(SFT), "Llama, large": large_llama(tokenizer)}
        for kind, policy in policies.items():
            print(f"\n{kind}, {name}{', weights of before the first update' if stale else ''}")
            for metrics in measure(policy, tokenizer, engine(tokenizer, name, stale)):
                print("  ".join(f"{shown} {metrics[shown]:.5f}" for shown in SHOWN))


if __name__ == "__main__":
    main()
