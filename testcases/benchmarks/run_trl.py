"""Child: TRL 1.12.0's PPOTrainer on a workload, run from .venv-bench, which has TRL and not the course's packages.

What was set, so that TRL does the same work as the course's trainer and none that was not asked for:

- `per_device_train_batch_size` is the whole batch and `gradient_accumulation_steps` 1. With a minibatch's size and
  accumulation, TRL would step its optimizer once for several minibatches; so it steps epochs x minibatches times.
  (The memory row has one minibatch, in microbatches: there accumulation is what is meant.)
- `gradient_checkpointing=False` and `bf16=False`: TRL's defaults trade speed for memory, and float32 for bfloat16.
- `num_sample_generations=0`, `save_strategy="no"`, `report_to="none"`, `disable_tqdm=True`, and the callback that
  prints each log is taken out: no evaluation, checkpoints or printing.
- `local_rollout_forward_batch_size` is the whole batch: generation and scoring in one piece, the fastest.
- `response_length`, `temperature=1.0`, no stop token, and a pad token that the policy cannot write: each response has
  exactly the workload's tokens.
- fused AdamW without weight decay, a constant learning rate; TRL's PPOTrainer does not clip gradients.
"""

from __future__ import annotations

import copy
import sys
import tempfile

import torch
from datasets import Dataset
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import GPT2ForSequenceClassification, PreTrainedTokenizerFast, PrinterCallback, TrainerCallback
from trl.experimental.ppo import PPOConfig, PPOTrainer

from .relay import Relay
from .workload import ADAM_EPSILON, LEARNING_RATE, Workload

ENDLESS = 1_000_000


class Turns(TrainerCallback):
    """Hands each finished update to the relay."""

    def __init__(self, relay: Relay) -> None:
        self.relay = relay

    def on_train_begin(self, args, state, control, **rest):
        self.relay.wait()

    def on_step_end(self, args, state, control, **rest):
        self.relay.update_done()


def make_tokenizer(work: Workload) -> PreTrainedTokenizerFast:
    """One word for each token; the pad token's number is one past what the policy can write."""
    vocabulary = {f"w{number}": number for number in range(work.vocab_size)} | {"<pad>": work.never}
    return PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(WordLevel(vocabulary, unk_token="<pad>")),
        pad_token="<pad>",
        eos_token="<pad>",
        padding_side="left",
    )


def make_scorer(work: Workload, seed: int) -> GPT2ForSequenceClassification:
    """A critic or reward model: a GPT-2 body with a head of one number."""
    body = work.language_model(seed).transformer
    config = copy.deepcopy(body.config)
    config.num_labels = 1
    model = GPT2ForSequenceClassification(config)
    model.transformer = body
    return model


def make_trainer(work: Workload, folder: str) -> PPOTrainer:
    """Policy, critic, reward model and reference of the workload's shape, under TRL's trainer."""
    on_cpu = not torch.cuda.is_available()
    config = PPOConfig(
        output_dir=folder,
        per_device_train_batch_size=work.micro or work.batch,
        gradient_accumulation_steps=work.batch // (work.micro or work.batch),
        num_mini_batches=work.minibatches,
        num_ppo_epochs=work.epochs,
        local_rollout_forward_batch_size=work.rollout or work.batch,
        total_episodes=ENDLESS * work.batch,
        response_length=work.response,
        temperature=1.0,
        stop_token=None,
        missing_eos_penalty=None,
        num_sample_generations=0,
        learning_rate=LEARNING_RATE,
        lr_scheduler_type="constant",
        adam_epsilon=ADAM_EPSILON,
        weight_decay=0.0,
        optim="adamw_torch_fused",
        gradient_checkpointing=False,
        bf16=work.precision == "bf16",
        use_cpu=on_cpu,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
    )
    prompts = Dataset.from_list([{"input_ids": prompt} for prompt in work.prompts()])
    trainer = PPOTrainer(
        args=config,
        processing_class=make_tokenizer(work),
        model=work.language_model(0),
        ref_model=work.language_model(0),
        reward_model=make_scorer(work, 2).requires_grad_(False),
        value_model=make_scorer(work, 1),
        train_dataset=prompts,
        eval_dataset=prompts.select(range(1)),
    )
    trainer.remove_callback(PrinterCallback)
    return trainer


def main() -> None:
    work = Workload.from_json(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        trainer = make_trainer(work, folder)
        relay = Relay()
        trainer.add_callback(Turns(relay))
        trainer.train()


if __name__ == "__main__":
    main()
