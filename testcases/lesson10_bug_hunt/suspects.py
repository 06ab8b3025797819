"""What is handed out: one bug in each file, from a real project. stories.toml tells which, after the repair.

`why` is what a student reads when the file still behaves so: it must not say where the bug is.
"""

from testcases.engine.oracle import Planted, edit

WHY = "it still behaves so: make the symptom small (method, step 1), and test one property of the function at a time"


class CreditPacked(Planted, of="credit_packed"):
    credit_packed_as_handed_out = edit("step + 1 < end", "step + 1 < len(critic)", why=WHY)


class PessimisticGain(Planted, of="pessimistic_gain"):
    pessimistic_gain_as_handed_out = edit("minimum", "maximum", why=WHY)


class BoundedError(Planted, of="bounded_error"):
    bounded_error_as_handed_out = edit("free_error > held_error", "free_error < held_error", why=WHY)


class MergeMoments(Planted, of="merge_moments"):
    merge_moments_as_handed_out = edit("scores.numel()", "len(scores)", why=WHY)


class SampledDrift(Planted, of="sampled_drift"):
    sampled_drift_as_handed_out = edit("(frozen_logits / heat)", "frozen_logits", why=WHY)


class ReadPrompts(Planted, of="read_prompts"):
    read_prompts_as_handed_out = edit(
        "(visible.long().cumsum(dim=1) - 1).clamp(min=0)", "torch.arange(tokens.shape[1]).expand_as(tokens)", why=WHY
    )


class SumInGroups(Planted, of="sum_in_groups"):
    sum_in_groups_as_handed_out = edit("[order.argsort()]", "[order]", why=WHY)


class LabelReplies(Planted, of="label_replies"):
    label_replies_as_handed_out = edit(
        "return Rows(tokens, labels)", "return Rows(tokens, labels.masked_fill(tokens == end, IGNORED))", why=WHY
    )


class TrainChain(Planted, of="train_chain"):
    train_chain_as_handed_out = edit('"target": advantage + critic', '"target": batch["credit"] + critic', why=WHY)


class TrainBandit(Planted, of="train_bandit"):
    train_bandit_as_handed_out = edit("gain + curiosity * entropy", "gain - curiosity * entropy", why=WHY)


class TrainSliced(Planted, of="train_sliced"):
    train_sliced_as_handed_out = edit("-weighted.sum() / real.sum()", "-weighted.mean() / len(slices)", why=WHY)


class TrainContexts(Planted, of="train_contexts"):
    train_contexts_as_handed_out = edit(
        "    chosen = chances.log()[questions, answers]\n",
        "",
        "        ratios = (leaf.log_softmax(dim=1)[questions, answers] - chosen).exp()\n",
        "        log_chances = leaf.log_softmax(dim=1)[questions, answers]\n"
        "        chosen = log_chances.detach()\n"
        "        ratios = (log_chances - chosen).exp()\n",
        why=WHY,
    )
