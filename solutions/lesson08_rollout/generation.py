"""Lesson 8, first part: let the policy write, and keep the log-probability of every token it chose.

No function changes the tensors that it is given.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from ppo_by_hand.core.config import RolloutConfig
from ppo_by_hand.core.shapes import check_mask, check_number, check_shapes, context_length, is_stop, text_config
from ppo_by_hand.core.texts import with_place

from ..lesson01_masked_sequences import gather_log_probs, position_ids, response_mask, truncate_after_stop
from ..lesson07_actor_critic import evaluation_mode

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class Generation(NamedTuple):
    """Sampled responses; T is the length of the longest."""

    responses: Tensor
    """(B, T) int64: tokens, the stop token included, then padding."""
    log_probs: Tensor
    """(B, T) float, in nats, of the policy that sampled; 0 where masked."""
    mask: Tensor
    """(B, T) bool, True on real tokens."""

    @classmethod
    def from_lists(
        cls, tokens: Sequence[Sequence[int]], log_probs: Sequence[Sequence[float]] | None, pad_token_id: int
    ) -> Generation:
        """Make a `Generation` of what an engine answers: a list for each response, without padding. Given.

        Args:
            tokens: of each response, the stop token included.
            log_probs: of each of them; None where the engine gives none, for `recompute_log_probs`.
            pad_token_id: fills the shorter rows.

        Raises:
            ValueError: a response is empty, or has not one log-probability for each token.
        """
        lengths = [len(row) for row in tokens]
        if not lengths or min(lengths) == 0:
            raise ValueError(f"expected a token in each response, got lengths {lengths[:8]}; ask for at least one")
        given = [[math.nan] * length for length in lengths] if log_probs is None else log_probs
        if [len(row) for row in given] != lengths:
            raise ValueError(
                f"expected a log-probability for each token, got {[len(row) for row in given][:8]} for responses of "
                f"{lengths[:8]} tokens"
            )
        mask = torch.arange(max(lengths)) < torch.tensor(lengths).unsqueeze(1)
        responses, found = torch.full(mask.shape, pad_token_id), torch.zeros(mask.shape)
        responses[mask] = torch.tensor([int(token) for row in tokens for token in row])
        found[mask] = torch.tensor([float(one) for row in given for one in row])
        return cls(responses, found, mask)


def sample_token(
    logits: Tensor,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Draw one token from each row's distribution, optionally from its most likely tokens only.

    Args:
        logits: (B, V) float; in bfloat16 or float16 all may be computed in that precision.
        temperature: > 0, divides the logits before anything else. For the most likely token, use top_k=1.
        top_k: keep the k most likely tokens and those tied with the last of them; 0 keeps all.
        top_p: of the tokens that top_k kept, with probabilities that sum to 1 again, keep the smallest set of most
            likely ones that sum to at least top_p; those tied with the last of them may stay. 1 keeps all.
        generator: source of randomness; None uses the global one.

    Returns:
        (B,) int64.

    Raises:
        ValueError: `logits` is not (B, V), or an option is out of range.

    Source: Holtzman et al., "The Curious Case of Neural Text Degeneration", 2020 (top-p).
    """
    check_shapes(logits=(logits, "B V"))
    check_number("temperature", temperature, 0.0, open_low=True)
    check_number("top_k", top_k, 0)
    check_number("top_p", top_p, 0.0, 1.0, open_low=True)
    # region solution
    logits = logits / temperature
    if 0 < top_k < logits.shape[1]:
        smallest_kept = logits.topk(top_k, dim=1).values[:, -1:]
        logits = logits.masked_fill(logits < smallest_kept, -torch.inf)
    if top_p < 1.0:
        ordered, order = logits.softmax(dim=1).sort(dim=1, descending=True)
        mass_before = ordered.cumsum(dim=1) - ordered
        logits = logits.masked_fill((mass_before >= top_p).gather(1, order.argsort(dim=1)), -torch.inf)
    return torch.multinomial(logits.softmax(dim=1), 1, generator=generator).squeeze(1)
    # endregion


def cache_name(policy: PreTrainedModel) -> str:
    """Name the key-value cache as the policy's forward and its output do. Given.

    It's `cache` from transformers 5.24 on, where `past_key_values` still works with a warning until 5.40.
    """
    model: Any = policy
    if hasattr(model, "get_base_model"):  # PEFT's, whose own forward names neither
        model = model.get_base_model()
    return "cache" if "cache" in inspect.signature(model.forward).parameters else "past_key_values"


@torch.no_grad()
def generate(
    policy: PreTrainedModel,
    input_ids: Tensor,
    attention_mask: Tensor,
    max_new_tokens: int,
    stop_token_ids: Sequence[int],
    pad_token_id: int,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    generator: torch.Generator | None = None,
) -> Generation:
    """Sample a response to each prompt with a key-value cache, one forward pass per token, until all rows have stopped.

    Args:
        policy: a Hugging Face causal language model whose config leaves `use_cache` on; its logits are float32 or
            float64. Call it as a module, with `input_ids`, `attention_mask`, `position_ids`, `past_key_values` (or
            `cache`: see `cache_name`) and `use_cache`, and `logits_to_keep` if you like; the loop is yours, not its own
            `generate`. Dropout is off while sampling, the mode is restored, and nothing else of it or its config is
            changed.
        input_ids: (B, P) int64, left-padded prompts.
        attention_mask: (B, P) bool, True on real tokens, so its last column is all True.
        max_new_tokens: >= 1; a response that has not stopped by then is cut.
        stop_token_ids: any of these ends a row; if there are none, every row has `max_new_tokens` tokens.
        pad_token_id: fills the rows that have ended; may be a stop token.
        temperature, top_k, top_p, generator: as in `sample_token`.

    Returns:
        Responses, and the log-probabilities of the whole distribution at this temperature, which is the one that
        training recomputes: with top_k or top_p they are not those of the sampler. PPO samples without either.

    Raises:
        ValueError: shapes disagree, prompts are not left-padded, or prompt + response exceed the context.
    """
    check_shapes(input_ids=(input_ids, "B P"), attention_mask=(attention_mask, "B P"))
    check_number("max_new_tokens", max_new_tokens, 1)
    _check_prompts(policy, input_ids, attention_mask.bool(), max_new_tokens)
    # region solution
    visible, positions, cache = attention_mask.bool(), position_ids(attention_mask), None
    next_ids, name = input_ids, cache_name(policy)
    is_writing = torch.ones(len(input_ids), dtype=torch.bool, device=input_ids.device)
    responses, log_probs = [], []
    with evaluation_mode(policy):
        for _ in range(max_new_tokens):
            output = policy(
                input_ids=next_ids,
                attention_mask=visible,
                position_ids=positions,
                use_cache=True,
                logits_to_keep=1,
                **{name: cache},
            )
            logits, cache = output.logits[:, -1], getattr(output, name)
            tokens = sample_token(logits, temperature, top_k, top_p, generator)
            responses.append(tokens)
            log_probs.append(gather_log_probs(logits.unsqueeze(1), tokens.unsqueeze(1), temperature).squeeze(1))
            is_writing = is_writing & ~is_stop(tokens, stop_token_ids)
            if not is_writing.any():
                break
            next_ids, positions = tokens.unsqueeze(1), positions[:, -1:] + 1
            visible = torch.cat([visible, torch.ones_like(visible[:, :1])], dim=1)
    sampled = torch.stack(responses, dim=1)
    mask = response_mask(sampled, stop_token_ids)
    return Generation(
        truncate_after_stop(sampled, stop_token_ids, pad_token_id),
        torch.stack(log_probs, dim=1).masked_fill(~mask, 0.0),
        mask,
    )
    # endregion


def sampling_options(config: RolloutConfig) -> dict[str, Any]:
    """Return the keyword arguments of `generate` that the settings of a run decide. Given."""
    return {
        "max_new_tokens": config.max_new_tokens,
        "stop_token_ids": config.stop_token_ids,
        "pad_token_id": config.pad_token_id,
        "temperature": config.temperature,
    }


def merge_generations(parts: Sequence[Generation], pad_token_id: int) -> Generation:
    """Join the responses of all parts, row after row, padded on the right to the longest."""
    length = max(part.mask.shape[1] for part in parts)

    def joined(tensors: Sequence[Tensor], filler: int) -> Tensor:
        return torch.cat([pad(tensor, (0, length - tensor.shape[1]), value=filler) for tensor in tensors])

    responses, log_probs, masks = zip(*parts, strict=True)
    return Generation(joined(responses, pad_token_id), joined(log_probs, 0), joined(masks, 0))


def checked_sampler(sampler: Callable[..., Generation], config: RolloutConfig) -> Callable[..., Generation]:
    """Wrap a sampler: it is called as `generate` is, with the policy in eval mode, and its answer is checked. Given.

    Args:
        sampler: a user's function.
        config: of the run.

    Raises:
        ValueError: later, when it is called: its answer isn't that of `generate`.
    """

    def sample(policy: PreTrainedModel, input_ids: Tensor, attention_mask: Tensor, **options: Any) -> Generation:
        try:
            with evaluation_mode(policy):
                answer = sampler(policy, input_ids, attention_mask, **options)
        except (TypeError, AttributeError, LookupError) as error:
            call = f"(policy, input_ids, attention_mask, {', '.join(options)})"
            raise RuntimeError(f"expected a sampler of {call}, got {with_place(error)}") from error
        known = getattr(text_config(policy), "vocab_size", None)
        checked = checked_generation(answer, len(input_ids), config, known)
        return Generation(*(tensor.to(input_ids.device) for tensor in checked))

    return sample


def checked_generation(
    answer: Generation, count: int, config: RolloutConfig | None = None, known: int | None = None
) -> Generation:
    """Check that another sampler's answer has the form of `generate`'s; its log-probs become 0 where masked.

    Args:
        answer: what it returned.
        count: of prompts.
        config: of the run; with `recompute_log_probs` the log-probs may be NaN.
        known: tokens of the policy.

    Raises:
        ValueError: it is no Generation of tensors, shapes disagree, a row is empty, not right-padded, too long or goes
            on after its stop token, or has an unknown token or a log-probability that is not finite or above 0.
    """
    if not isinstance(answer, tuple) or len(answer) != 3 or not all(isinstance(one, Tensor) for one in answer):
        got = f"({', '.join(type(one).__name__ for one in answer)})" if isinstance(answer, tuple) else type(answer)
        raise ValueError(
            "expected the sampler to return Generation(responses, log_probs, mask), three tensors, got "
            f"{getattr(got, '__name__', got)}; make one of lists with Generation.from_lists(tokens, log_probs, pad)"
        )
    answer = Generation(*answer)
    if answer.responses.dtype != torch.int64:
        raise ValueError(f"expected token ids (int64) as responses from the sampler, got {answer.responses.dtype}")
    layouts = {name: (tensor, "B T") for name, tensor in answer._asdict().items()}
    check_shapes(rows=(answer.responses.new_empty(count), "B"), **layouts)
    check_mask(answer.mask, per_row=True)
    if not answer.mask[:, 0].all() or (~answer.mask[:, :-1] & answer.mask[:, 1:]).any():
        raise ValueError("expected right-padded responses from the sampler, got a real token after a masked one")
    real = answer.log_probs[answer.mask]
    may_lack = getattr(config, "recompute_log_probs", False)
    if not (real.isfinite() | (real.isnan() & may_lack)).all() or (real > 1e-3).any():
        raise ValueError(
            "expected finite log-probabilities from the sampler, at most 0, got others on real tokens; with "
            "recompute_log_probs it need give none"
        )
    if config is not None:
        _check_tokens(answer, config, known)
    return answer._replace(log_probs=answer.log_probs.masked_fill(~answer.mask, 0.0))


def _check_tokens(answer: Generation, config: RolloutConfig, known: int | None) -> None:
    lowest, highest = torch.aminmax(answer.responses[answer.mask])
    if known is not None and not 0 <= lowest <= highest < known:
        raise ValueError(
            f"expected token ids in [0, {known}), those of the policy, from the sampler, got {int(lowest)} to "
            f"{int(highest)}"
        )
    if answer.mask.shape[1] > config.max_new_tokens:
        raise ValueError(
            f"expected at most max_new_tokens ({config.max_new_tokens}) in a response of the sampler, got "
            f"{answer.mask.shape[1]}; hand the setting on to the engine"
        )
    if (answer.mask & ~response_mask(answer.responses, config.stop_token_ids)).any():
        raise ValueError(
            f"expected nothing after a stop token of the run {config.stop_token_ids} from the sampler, got more; hand "
            "stop_token_ids on to the engine"
        )


def _check_prompts(policy: PreTrainedModel, input_ids: Tensor, attention_mask: Tensor, max_new_tokens: int) -> None:
    if not attention_mask[:, -1].all():
        raise ValueError(
            "expected left-padded prompts, got padding at the end of a row; generation would start from a padding token"
        )
    known, (lowest, highest) = getattr(text_config(policy), "vocab_size", None), torch.aminmax(input_ids)
    if known is not None and not 0 <= lowest <= highest < known:
        raise ValueError(
            f"expected token ids in [0, {known}), those of the policy, got {int(lowest)} to {int(highest)} in the "
            "prompts; encode them with its tokenizer"
        )
    context, longest = context_length(policy), int(attention_mask.sum(dim=1).max())
    if context is not None and longest + max_new_tokens > context:
        raise ValueError(
            f"expected prompt + response to fit the context of {context} tokens, got {longest} + {max_new_tokens}; "
            "shorten the prompts or lower max_new_tokens"
        )
