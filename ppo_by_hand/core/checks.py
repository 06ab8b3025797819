"""Where the metrics of a run go: TensorBoard, a file with one JSON object per line, and the debugging checklist of
lesson 9 as code, which makes sentences of them for what is wrong with a run."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

from accelerate import PartialState

from .files import unused
from .progress import say_check

METRICS_FILE = "metrics.jsonl"
Metrics = dict[str, float]
STOPS = ("finite", "step")
"""Faults after which nothing more can be learned: the run ends."""
RATIO_TOLERANCE = 0.05
"""bfloat16 rounds a ratio by a few percent; a wrong temperature or dropout moves it by much more."""
SAMPLER_TOLERANCE = 0.5
"""Another engine rounds each token's probability by a few per cent, and of thousands this is the largest ratio."""
SAMPLER_KL = 0.01
"""Nats per token between a sampler and the policy: rounding by 5 % makes 0.001, other weights or temperatures more."""
ROUNDING = 1e-5
"""Of a ratio in float32."""
START_KL = 0.05
"""Nats per response: rounding errors, summed over its tokens."""
LOWEST_KL = -1.0
"""Nats per response: by chance the k1 estimate of a small KL may be a little below 0."""
KL_PER_TOKEN = 2.0
"""Nats per token: such a policy writes what the reference almost never would."""
LEAST_ENTROPY = 0.01
"""Nats per token: one unlikely token in about a thousand."""
LARGEST_CLIP_FRACTION, LARGEST_UPDATE_KL = 0.5, 0.5
"""Above them look for a bug, then make the steps smaller; 0.1 to 0.3, and 0.01 nats per token, are usual (lesson 9)."""
LARGEST_GRAD_NORM = 100.0
"""In units of max_grad_norm."""
CUT_OFF_RATE, CLIPPED_SCORES = 0.5, 0.2
"""Shares of the responses."""
CRITIC_UPDATES = 10
"""Updates in a row in which the critic may be worse than a constant."""


class DivergedError(RuntimeError):
    """The run has gone where nothing more can be learned; the message says which check failed first."""


def faults(history: Sequence[Metrics]) -> Iterator[tuple[str, str]]:
    """Name and sentence of each fault that the newest metrics show; what comes first is nearer to the cause.

    A metric that was not measured is no fault.
    """
    metrics = history[-1]
    broken = [name for name, value in metrics.items() if not math.isfinite(value)]
    if broken:
        yield (
            "finite",
            f"NaN or infinity in {', '.join(broken)}: too large a step, a mask multiplied in place of selected, or exp "
            "taken before the mask",
        )
        return  # nothing else makes sense then
    yield from _faults_of_the_start(metrics, is_first=len(history) == 1)
    yield from _faults_of_the_steps(metrics)
    yield from _faults_of_the_rollout(metrics)
    explained = [one.get("explained_variance", 0.0) for one in history[-CRITIC_UPDATES:]]
    if len(explained) == CRITIC_UPDATES and max(explained) < 0.0:
        yield (
            "critic",
            f"the critic was worse than a constant for {CRITIC_UPDATES} updates (explained variance "
            f"{explained[-1]:.2f}): is it in the optimizer, and are the returns made before whitening?",
        )


def _faults_of_the_start(metrics: Metrics, is_first: bool) -> Iterator[tuple[str, str]]:
    """What is known before the first step: the policy is the one that sampled, and at first the reference."""
    is_other = "own_sampler" in metrics
    ratio, kl = metrics.get("first_ratio_max", 1.0), metrics.get("kl", 0.0)
    if abs(ratio - 1.0) > (SAMPLER_TOLERANCE if is_other else RATIO_TOLERANCE):
        yield (
            "first_ratio",
            f"before the first step of an update every ratio is 1, but the largest was {ratio:.2f}: sampling and "
            "training disagree on the temperature, positions, padding, dropout or precision",
        )
    sampler_kl = metrics.get("sampler_kl", 0.0)
    if sampler_kl > SAMPLER_KL:
        yield (
            "sampler",
            f"the sampler is {sampler_kl:.3f} nats per token from the policy: it has other weights (those of an update "
            "before?), another temperature, or a much coarser precision",
        )
    if is_first and abs(kl) > (SAMPLER_TOLERANCE if is_other else START_KL):
        yield (
            "first_kl",
            f"before the first update the KL from the reference is 0, but it was {kl:.2f} nats: the reference is not "
            "the model that training starts from, or its dropout is on",
        )
    if kl < LOWEST_KL:
        yield (
            "negative_kl",
            f"a mean KL cannot be negative, but it was {kl:.2f} nats: a swapped subtraction, or top-k or top-p "
            "sampling",
        )


def _faults_of_the_steps(metrics: Metrics) -> Iterator[tuple[str, str]]:
    entropy = metrics.get("entropy", 1.0)
    if entropy < -1e-6:
        yield (
            "negative_entropy",
            f"an entropy cannot be negative, but it was {entropy:.2f} nats: its sign is wrong, or it averages padding",
        )
    elif entropy < LEAST_ENTROPY:
        yield ("entropy", f"the entropy fell to {entropy:.3f} nats per token: raise kl_coef, or lower learning_rate")
    norm, most = metrics.get("grad_norm", 0.0), metrics.get("max_grad_norm", math.inf)
    stands_still = abs(metrics.get("ratio_max", 0.0) - 1.0) <= ROUNDING and metrics.get("optimizer_steps", 0.0) >= 2
    if stands_still and metrics.get("learning_rate", 1.0) > 0.0:
        yield (
            "moves",
            "the ratio stayed 1 in all steps, so they changed nothing: a learning_rate too small for float32, frozen "
            "weights, a detached loss, or old log-probs that are made anew",
        )
    if metrics.get("skipped_share", 0.0) >= 1.0:
        yield (
            "step",
            "every minibatch was skipped for its mean ratio: sampling and training do not belong to one policy",
        )
    clipped, kl = metrics.get("clip_fraction", 0.0), metrics.get("approx_kl", 0.0)
    if clipped > LARGEST_CLIP_FRACTION or kl > LARGEST_UPDATE_KL:
        yield (
            "clip",
            f"the steps of one update moved the policy by {kl:.2f} nats per token, and {clipped:.0%} of the tokens "
            "were clipped: is first_ratio_max 1? Then lower learning_rate or num_epochs, or set max_update_kl",
        )
    if norm > LARGEST_GRAD_NORM * most:
        yield (
            "grad_norm",
            f"the gradient's norm was {norm:.0f} and is scaled down to max_grad_norm {most:g}, which leaves next to "
            "nothing of the policy's part: the returns have a standard deviation of "
            f"{metrics.get('return_std', math.nan):.3g}, so scale the rewards until it is near 1, or set clip_score",
        )


def _faults_of_the_rollout(metrics: Metrics) -> Iterator[tuple[str, str]]:
    kl = metrics.get("kl", 0.0) / max(metrics.get("response_length", 1.0), 1.0)
    if kl > KL_PER_TOKEN:
        yield (
            "kl",
            f"the KL from the reference is {kl:.1f} nats per token: read the responses, and raise kl_coef or lower "
            "learning_rate if they are no good",
        )
    clipped = metrics.get("score_clip_fraction", 0.0)
    if clipped > CLIPPED_SCORES:
        yield "scores", f"{clipped:.0%} of the scores were clipped to +- clip_score: raise it, or scale the reward"
    cut_off = 1.0 - metrics.get("stop_rate", 1.0)
    if cut_off > CUT_OFF_RATE:
        yield (
            "stop_rate",
            f"{cut_off:.0%} of the responses were cut off: raise max_new_tokens or missing_stop_penalty",
        )


class RunLog:
    """Writes the metrics of each update; a context that closes its files, also after Ctrl-C.

    In `log_dir` it writes TensorBoard's files and `metrics.jsonl`, a line for each update with its number from 1 and
    every metric; NaN and infinity become null, since JSON has neither. A file of this name that does not begin with
    this run's lines is renamed first. Each check speaks once in a run, on stderr. Of several processes only the main
    one writes.

    Args:
        log_dir: created where missing; None writes no files, and checks all the same.
        history: the metrics of the updates before, when a run is resumed: the file begins with them.
    """

    def __init__(self, log_dir: str | Path | None, history: Sequence[Metrics] = ()) -> None:
        self.log_dir = log_dir if PartialState().is_main_process else None
        self.history = list(history)
        self.failed: dict[str, str] = {}
        for update in range(1, len(history) + 1):
            self._new_faults(update)
        self.open_files = ExitStack()
        self.lines: IO[str] | None = None
        self.tensorboard: Any = None

    def __enter__(self) -> RunLog:
        if self.log_dir is not None:
            from torch.utils.tensorboard import SummaryWriter

            self.lines = self.open_files.enter_context(_open(Path(self.log_dir, METRICS_FILE), self.history))
            # purge_step hides the points that a killed run wrote after its last checkpoint.
            writer = SummaryWriter(self.log_dir, purge_step=len(self.history) + 1)
            self.tensorboard = self.open_files.enter_context(writer)
        return self

    def __exit__(self, *error: object) -> None:
        self.open_files.close()

    def write(self, update: int, metrics: Metrics) -> None:
        """Record an update, whose number is 1 for the first of the run, and check it.

        Raises:
            DivergedError: nothing more can be learned; these metrics are recorded.
        """
        if self.lines is not None:
            print(_line(update, metrics), end="", file=self.lines, flush=True)
            for name, value in metrics.items():
                self.tensorboard.add_scalar(name, value, update)
        self.history.append(metrics)
        new = self._new_faults(len(self.history))
        for sentence in new.values():
            say_check(sentence)
        for sentence in (new[name] for name in STOPS if name in new):
            first = next(iter(self.failed.values()))
            more = "" if first == sentence else f"; the first check that failed: {first}"
            raise DivergedError(f"stopped at {sentence}{more}")

    def _new_faults(self, updates: int) -> dict[str, str]:
        """Sentences, by name, of the checks that fail first at this update."""
        found = faults(self.history[:updates])
        new = {name: f"update {updates}: {sentence}" for name, sentence in found if name not in self.failed}
        self.failed |= new
        return new


def _open(file: Path, before: Sequence[Metrics]) -> IO[str]:
    """The file with the lines of the updates before, to go on; what is there of another run is renamed."""
    file.parent.mkdir(parents=True, exist_ok=True)
    lines = "".join(_line(number, metrics) for number, metrics in enumerate(before, start=1))
    if file.is_file() and not (before and file.read_text("utf-8", errors="replace").startswith(lines)):
        file.rename(unused(file))
    opened = file.open("w", encoding="utf-8")
    opened.write(lines)
    return opened


def _line(update: int, metrics: Metrics) -> str:
    finite = {name: value if math.isfinite(value) else None for name, value in metrics.items()}
    return json.dumps({"update": update, **finite}) + "\n"
