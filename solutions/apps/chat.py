"""The command behind `make chat`: the policies of a run answer the same prompt, side by side.

python -m solutions.apps.chat runs/demo
echo "review the film :" | python -m tutorial.apps.chat runs/mine
"""

import argparse
import difflib
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from ppo_by_hand.core.prompts import encode_prompts
from tiny_models.gold import GOLD_MAX, gold_score
from tiny_models.language import topic_of
from tiny_models.tokenizer import build_tokenizer

from ..lesson08_rollout import generate
from .stack import own_folder

POLICIES = {"sft": "SFT", "policy": "PPO", "no_kl_policy": "PPO without KL penalty"}
"""Folder of a run -> the name of the policy in it."""
FOLDERS = (Path("runs/mine"), Path("runs/demo"))
MAX_NEW_TOKENS = 24
EXAMPLES = ("review the film :", "a friend asks : how was the book ?", "please say something about the hotel :")


class Chat:
    """Policies that answer prompts. The seed decides every answer; a prompt asked again gets another one.

    Raises:
        ValueError: there is no policy in the folder.
    """

    def __init__(self, out: Path, seed: int = 0) -> None:
        from transformers import AutoModelForCausalLM
        from transformers.utils import logging

        logging.disable_progress_bar()
        found = {out / folder: name for folder, name in POLICIES.items() if (out / folder).is_dir()}
        if not found:
            raise ValueError(
                f"expected the policies of a run in {out}, got no folder {' or '.join(POLICIES)} there; train them "
                f"first: make demo STACK=tutorial OUT={out}"
            )
        self.policies = {name: AutoModelForCausalLM.from_pretrained(path).eval() for path, name in found.items()}
        self.tokenizer = build_tokenizer()
        self.sampling = torch.Generator().manual_seed(seed)

    def refusal(self, prompt: str) -> str | None:
        """A sentence about a prompt that no policy can read: a word that it does not know, or too many words."""
        words = self.tokenizer.get_vocab()
        strange = [word for word in prompt.split() if word not in words]
        if not strange:
            most = min(policy.config.max_position_embeddings for policy in self.policies.values()) - MAX_NEW_TOKENS
            count = len(prompt.split())
            return f"{count} words are too many: the policies read {most} at most." if count > most else None
        known = sorted(word for word in words if word.isalpha())
        near = [close for word in strange for close in difflib.get_close_matches(word.lower(), known, n=3)]
        offered = list(dict.fromkeys(near)) or known[:: max(1, len(known) // 12)]
        said = textwrap.shorten(", ".join(word[:20] for word in strange), 80, placeholder=" ...")
        return f"unknown: {said}. The policies know {len(known)} words, such as {', '.join(offered[:12])}."

    def answers(self, prompt: str) -> dict[str, str]:
        """One response of each policy."""
        stop, pad = self.tokenizer.eos_token_id, self.tokenizer.pad_token_id
        input_ids, attention_mask = encode_prompts([prompt], self.tokenizer, pad)
        state, found = self.sampling.get_state(), {}
        for name, policy in self.policies.items():
            self.sampling.set_state(state)  # the same random numbers for each
            with torch.no_grad():
                written = generate(
                    policy, input_ids, attention_mask, MAX_NEW_TOKENS, (stop,), pad, generator=self.sampling
                )
            real = written.responses[0][written.mask[0]]
            found[name] = str(self.tokenizer.decode(real, skip_special_tokens=True))
        return found


def prompts() -> Iterator[str]:
    """The lines that are typed, or that come through a pipe."""
    while True:
        try:
            line = input("> " if sys.stdin.isatty() else "").strip()
        except EOFError:
            return
        if line in ("q", "quit", "exit"):
            return
        if line:
            yield line


def table(prompt: str, answers: dict[str, str]) -> Table:
    shown = Table(title=prompt, title_justify="left", show_lines=True)
    for name in answers:
        shown.add_column(name, ratio=1)
    shown.add_row(*answers.values())
    try:
        topic_of(prompt)
    except ValueError:  # a prompt that no annotator has seen has no gold reward
        return shown
    shown.add_row(*(f"gold {gold_score(prompt, answer):+.2f} of {GOLD_MAX:.0f}" for answer in answers.values()))
    return shown


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make chat", description=__doc__.splitlines()[0])
    parser.add_argument("out", nargs="?", default="", help="folder of a run (OUT=); the newest of yours, if left out")
    parser.add_argument("--seed", type=int, default=0, help="decides the answers (SEED=)")
    options = parser.parse_args(arguments)
    out = Path(options.out) if options.out else next((one for one in FOLDERS if one.is_dir()), FOLDERS[-1])
    try:
        chat: Any = Chat(out, options.seed)
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    console = Console(highlight=False, markup=False)
    whose = "your generate" if own_folder() else "the reference's generate"
    console.print(f"{', '.join(chat.policies)} from {out}, with {whose}. Ask such as:")
    console.print("\n".join(f"  {example}" for example in EXAMPLES))
    console.print("An empty line is skipped; q or Ctrl-D ends.")
    try:
        for prompt in prompts():
            if sentence := chat.refusal(prompt):
                console.print(sentence)
            else:
                console.print(table(prompt, chat.answers(prompt)))
    except KeyboardInterrupt:
        console.print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
