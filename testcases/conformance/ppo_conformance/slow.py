"""A second, slow implementation of every operation: plain Python lists, one number at a time.

It shares no line with any library. The tests compute each case from it again; the kit asks it what an answer would be
under another convention, or with a known mistake. variants.json names them: a keyword argument after the star, or
another number for one of the case's own.
Whole numbers, floats and fractions may be mixed. A mask of None means that all is real.
"""

import math
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

Row = list[Any]
Rows = list[Row]
_zip = partial(zip, strict=True)


def gather_log_probs(logits, tokens, temperature=1.0, *, temperature_on="logits") -> Rows:
    shared = {"temperature": temperature, "temperature_on": temperature_on}
    return [[_log_prob(at, token, **shared) for at, token in _zip(*row)] for row in _zip(logits, tokens)]


def response_log_probs(logits, input_ids, prompt_length, temperature=1.0, *, shift=1) -> Rows:
    scored = range(prompt_length, len(input_ids[0]))
    return [[_log_prob(row[t - shift], ids[t], temperature) for t in scored] for row, ids in _zip(logits, input_ids)]


def token_entropy(logits, temperature=1.0) -> Rows:
    def entropy(at: Row) -> float:
        log_probs = [_log_prob(at, token, temperature) for token in range(len(at))]
        return -sum(math.exp(x) * x for x in log_probs if x != -math.inf)

    return [[entropy(at) for at in row] for row in logits]


def masked_mean(values, mask, *, over="tokens") -> float:
    if over == "sum of everything":
        return sum(x for row in values for x in row) / sum(map(sum, mask))
    if over == "columns":
        return sum(_real(values, mask)) / sum(len(row) for row in values)
    if over == "everything":
        return _mean(x for row in values for x in row)
    return _reduce(values, mask, over)


def masked_whiten(values, mask, shift_mean=True, *, flag="removes", minus=1, eps=1e-8, over="tokens") -> Rows:
    if over == "rows":
        pairs = _zip(values, mask)
        return [masked_whiten([row], [m], shift_mean)[0] if any(m) else [0.0] * len(row) for row, m in pairs]
    real = _real(values, mask) if over == "tokens" else [x for row in values for x in row]
    mean = _mean(real)
    variance = sum((x - mean) ** 2 for x in real) / (len(real) - minus) if len(real) > minus else 0.0
    kept = 0 if shift_mean == (flag == "removes") else mean
    scaled = [[(x - mean) / math.sqrt(variance + eps) + kept for x in row] for row in values]
    return _zero_where_masked(scaled, mask)


def gae(
    rewards, values, dones, gamma=0.99, lam=0.95, *, done="both", shift=0, bootstrap=True, form="gae", returns="A + V"
) -> dict[str, Rows]:
    made = []
    for r, v, d in _zip(rewards, values, dones):
        alive = [1 - int(x) for x in ([0] * shift + d)[: len(d)]]
        v = v if bootstrap else v[:-1] + [0.0]
        made.append(_gae_of_row(r, v, alive, gamma, lam, done, form, returns))
    return {"advantages": [advantages for advantages, _ in made], "returns": [targets for _, targets in made]}


def _gae_of_row(r: Row, v: Row, alive: Row, gamma, lam, done: str, form: str, returns: str) -> tuple[Row, Row]:
    advantages, targets, carry, sum_to_go = [], [], 0.0, v[-1]
    for t in reversed(range(len(r))):
        next_value = v[t + 1] if alive[t] or done not in ("both", "value") else 0.0
        carry = carry if alive[t] or done not in ("both", "carry") else 0.0
        sum_to_go = r[t] + gamma * (sum_to_go if alive[t] else next_value)
        delta = r[t] + gamma * next_value - v[t]
        last, carry = carry, delta + gamma * lam * carry
        # r + gamma * (lambda-return of t + 1) - V[t], in which one lam of GAE is missing
        advantages.append(carry if form == "gae" else delta + gamma * last)
        targets.append({"A + V": carry + v[t], "A + next V": carry + v[t + 1], "rewards to go": sum_to_go}[returns])
    return advantages[::-1], targets[::-1]


def gae_response(
    rewards, values, mask, gamma=1.0, lam=0.95, *, masked="skipped", end=0.0, whiten=""
) -> dict[str, Rows]:
    advantages = []
    for r, v, m in _zip(rewards, values, mask):
        r = [x if real or masked == "raw" else 0.0 for x, real in _zip(r, m)]
        v = [x if real or masked.startswith("raw") else 0.0 for x, real in _zip(v, m)]
        is_step = m if masked in ("skipped", "ends") else [True] * len(m)
        row, carry = [], 0.0
        next_value = next((end * x for x, real in _zip(v[::-1], m[::-1]) if real), 0.0)
        for t in reversed(range(len(m))):
            if is_step[t]:
                carry = r[t] + gamma * next_value - v[t] + gamma * lam * carry
                next_value = v[t]
            elif masked == "ends":
                next_value, carry = 0.0, 0.0
            row.append(carry if m[t] else 0.0)
        advantages.append(row[::-1])
    returns = [[a + v if real else 0.0 for a, v, real in _zip(*rows)] for rows in _zip(advantages, values, mask)]
    if whiten:
        advantages = masked_whiten(advantages, mask, whiten == "centred")
    return {"advantages": advantages, "returns": returns}


def rewards_to_go(rewards, mask, gamma=1.0, *, gap="skipped") -> Rows:
    made = []
    for r, m in _zip(rewards, mask):
        row, to_go = [], 0.0
        for t in reversed(range(len(m))):
            to_go = r[t] + gamma * to_go if m[t] else gamma * to_go if gap == "a step" else to_go
            row.append(to_go if m[t] else 0.0)
        made.append(row[::-1])
    return made


def policy_loss(
    log_probs, old_log_probs, advantages, clip_epsilon=0.2, mask=None, *, bound="lower", dual_clip=None, over="tokens"
) -> float:
    def loss(new, old, advantage):
        ratio = math.exp(min(new - old, 700.0))
        both = [ratio * advantage, min(max(ratio, 1 - clip_epsilon), 1 + clip_epsilon) * advantage]
        objective = {"lower": min(both), "upper": max(both), "clipped": both[1], "unclipped": both[0]}[bound]
        if dual_clip and advantage < 0:
            objective = max(objective, dual_clip * advantage)
        return -objective

    return _loss_over(loss, (log_probs, old_log_probs, advantages), mask, over)


def value_loss(
    values, old_values, returns, clip_epsilon=0.2, mask=None, *, factor=0.5, bound="upper", around="old", over="tokens"
) -> float:
    def loss(value, old, target):
        middle = old if around == "old" else 0.0
        clipped = middle + min(max(value - middle, -clip_epsilon), clip_epsilon)
        both = [(value - target) ** 2, (clipped - target) ** 2]
        return factor * {"upper": max(both), "lower": min(both), "unclipped": both[0], "clipped": both[1]}[bound]

    return _loss_over(loss, (values, old_values, returns), mask, over)


def kl(
    log_probs, ref_log_probs, estimator="k1", *, sign=1, of_k3=1, half=0.5, clamp=math.inf, clamped="k1 k2 k3"
) -> Rows:
    """The exponent of k3 is capped at 20; `clamp` bounds the answer of the estimators in `clamped`."""

    def estimate(new, ref):
        r = sign * (new - ref)
        answer = {"k1": r, "k2": half * r * r, "k3": math.expm1(min(-of_k3 * r, 20.0)) + of_k3 * r}[estimator]
        return min(max(answer, -clamp), clamp) if estimator in clamped else answer

    return [[estimate(*pair) for pair in _zip(*rows)] for rows in _zip(log_probs, ref_log_probs)]


def token_rewards(
    scores, log_probs, ref_log_probs, mask, kl_coef, clip_score=5.0, estimator="k1", *, score_at="last", clamp=math.inf
) -> Rows:
    penalties = kl(_zero_where_masked(log_probs, mask), _zero_where_masked(ref_log_probs, mask), estimator, clamp=clamp)
    made = []
    for score, penalty, m in _zip(scores, penalties, mask):
        row = [-kl_coef * x if real else 0.0 for x, real in _zip(penalty, m)]
        last = max(t for t in range(len(m)) if m[t])
        at = {"last": last, "after last": min(last + 1, len(m) - 1), "last column": len(m) - 1}[score_at]
        row[at] += min(max(score, -clip_score), clip_score)
        made.append(row)
    return made


def leave_one_out(scores, *, others=True) -> Rows:
    return [[(sum(row) - others * x) / (len(row) - others) for x in row] for row in scores]


def group_advantages(scores, *, minus=1, scale=True, eps=0.0) -> Rows:
    made = []
    for row in scores:
        mean = _mean(row)
        std = math.sqrt(sum((x - mean) ** 2 for x in row) / (len(row) - minus)) if scale else 1.0
        made.append([(x - mean) / (std + eps) if std else 0.0 for x in row])
    return made


def response_mask(responses, stop_token_ids, *, stop_is_real=True, stop=0) -> Rows:
    stops = [[t + stop_is_real for t, x in enumerate(row) if x in stop_token_ids] for row in responses]
    ends = [at[stop] if at else len(row) for row, at in _zip(responses, stops)]
    return [[t < end for t in range(len(row))] for row, end in _zip(responses, ends)]


def truncate_after_stop(responses, stop_token_ids, pad_token_id) -> Rows:
    mask = response_mask(responses, stop_token_ids)
    return [[x if real else pad_token_id for x, real in _zip(*rows)] for rows in _zip(responses, mask)]


def pairwise_loss(chosen, rejected, margin=None) -> float:
    margin = margin or [0.0] * len(chosen)
    return _mean(_softplus(bad + m - good) for good, bad, m in _zip(chosen, rejected, margin))


def dpo_loss(chosen_log_probs, rejected_log_probs, ref_chosen_log_probs, ref_rejected_log_probs, beta=0.1) -> float:
    columns = (chosen_log_probs, rejected_log_probs, ref_chosen_log_probs, ref_rejected_log_probs)
    return _mean(
        _softplus(-beta * ((good - bad) - (ref_good - ref_bad))) for good, bad, ref_good, ref_bad in _zip(*columns)
    )


def _log_prob(logits: Row, token: int, temperature=1.0, temperature_on: str = "logits") -> float:
    scale = temperature if temperature_on == "logits" else 1.0
    top = max(logits) / scale
    total = math.log(sum(math.exp(x / scale - top) for x in logits)) + top
    return (logits[token] / scale - total) / (temperature if temperature_on == "log_probs" else 1.0)


def _softplus(x: float) -> float:
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


def _loss_over(loss: Callable[..., float], columns: tuple[Rows, ...], mask: Rows | None, over: str) -> float:
    if mask is None or over == "everything":
        mask = [[True] * len(row) for row in columns[0]]
    losses = [[loss(*at) if real else 0.0 for *at, real in _zip(*parts)] for parts in _zip(*columns, mask)]
    return _reduce(losses, [[True] * len(row) for row in mask] if over == "columns" else mask, over)


def _reduce(values: Rows, mask: Rows, over: str) -> float:
    rows = [[x for x, real in _zip(row, m) if real] for row, m in _zip(values, mask)]
    if over == "rows":
        return _mean(_mean(row) for row in rows if row)
    return _mean(x for row in rows for x in row)


def _real(values: Rows, mask: Rows) -> Row:
    return [x for row, m in _zip(values, mask) for x, real in _zip(row, m) if real]


def _mean(numbers: Iterable[Any]) -> Any:
    numbers = list(numbers)
    return sum(numbers) / len(numbers)


def _zero_where_masked(values: Rows, mask: Rows) -> Rows:
    return [[x if real else 0.0 for x, real in _zip(*rows)] for rows in _zip(values, mask)]


OPERATIONS: dict[str, Callable[..., Any]] = {
    one.__name__: one
    for one in [
        gather_log_probs, response_log_probs, token_entropy, masked_mean, masked_whiten, gae, gae_response, kl,
        rewards_to_go, policy_loss, value_loss, token_rewards, leave_one_out, group_advantages, response_mask,
        truncate_after_stop, pairwise_loss, dpo_loss,
    ]
}  # fmt: skip
