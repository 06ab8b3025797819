/* What the playgrounds compute: the course's functions for one row, in plain JavaScript.
   Each has the name of its Python function; testcases/course/book_test.py holds the two against each other. */
"use strict";

const arithmetic = (() => {
  const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);

  /* Lesson 4, compute_response_gae of one row without gaps; a TD error is the advantage with lam = 0. */
  function compute_gae(rewards, values, gamma, lam) {
    const td_errors = [], advantages = [];
    let next_value = 0, next_advantage = 0;
    for (let t = rewards.length - 1; t >= 0; t--) {
      td_errors[t] = rewards[t] + gamma * next_value - values[t];
      advantages[t] = td_errors[t] + gamma * lam * next_advantage;
      next_value = values[t];
      next_advantage = advantages[t];
    }
    return { td_errors, advantages, returns: advantages.map((advantage, t) => advantage + values[t]) };
  }

  /* Lesson 5, compute_ppo_loss of one token; slope is the derivative of the objective by the log-probability. */
  function compute_ppo_loss(ratio, advantage, clip_epsilon) {
    const clipped = Math.min(Math.max(ratio, 1 - clip_epsilon), 1 + clip_epsilon);
    const objective = Math.min(ratio * advantage, clipped * advantage);
    const active = ratio * advantage <= clipped * advantage;
    return { unclipped: ratio * advantage, objective, loss: -objective, slope: active ? ratio * advantage : 0 };
  }

  /* Lesson 6, estimate_kl at each word, and what the estimates are on average over the words that p draws. */
  function estimate_kl(p, q) {
    const log_ratio = p.map((probability, word) => Math.log(probability) - Math.log(q[word]));
    const estimates = {
      k1: log_ratio,
      k2: log_ratio.map((r) => 0.5 * r * r),
      k3: log_ratio.map((r) => Math.expm1(Math.min(-r, 20)) + r),
    };
    const mean = {}, deviation = {};
    for (const [name, estimate] of Object.entries(estimates)) {
      mean[name] = sum(estimate.map((k, word) => p[word] * k));
      deviation[name] = Math.sqrt(sum(estimate.map((k, word) => p[word] * (k - mean[name]) ** 2)));
    }
    return { ...estimates, mean, deviation };
  }

  function softmax(logits) {
    const largest = Math.max(...logits);
    const weights = logits.map((logit) => Math.exp(logit - largest));
    const total = sum(weights);
    return weights.map((weight) => weight / total);
  }

  /* Lesson 8, the distribution that sample_token draws from. */
  function sampling_distribution(logits, temperature, top_k, top_p) {
    let kept = logits.map((logit) => logit / temperature);
    if (top_k > 0 && top_k < kept.length) {
      const smallest_kept = [...kept].sort((a, b) => b - a)[top_k - 1];
      kept = kept.map((logit) => (logit < smallest_kept ? -Infinity : logit));
    }
    if (top_p < 1) {
      const probabilities = softmax(kept);
      const order = probabilities.map((_, word) => word).sort((a, b) => probabilities[b] - probabilities[a]);
      let mass_before = 0;
      for (const word of order) {
        if (mass_before >= top_p) kept[word] = -Infinity;
        mass_before += probabilities[word];
      }
    }
    return softmax(kept);
  }

  function entropy(probabilities) {
    return -sum(probabilities.map((p) => (p > 0 ? p * Math.log(p) : 0)));
  }

  /* Lesson 1: the mean ratio over real tokens, and its gradient by each log-ratio, in three ways.
     multiply: exp, then times the mask. choose: exp, then torch.where. fill: masked_fill before exp. */
  function mean_ratio(log_ratios, mask, way) {
    const count = mask.filter(Boolean).length;
    const filled = log_ratios.map((x, t) => (way === "fill" && !mask[t] ? 0 : x));
    const ratios = filled.map(Math.exp);
    const parts = ratios.map((ratio, t) => (way === "multiply" ? ratio * (mask[t] ? 1 : 0) : mask[t] ? ratio : 0));
    const slopes = ratios.map((ratio, t) => (mask[t] ? 1 / count : 0) * ratio);
    return { ratios, parts, mean: sum(parts) / count, gradient: slopes.map((s, t) => (way === "fill" && !mask[t] ? 0 : s)) };
  }

  /* Lesson 13, group_advantages of one group, and lesson 3's leave_one_out_baseline subtracted from the scores. */
  function group_advantages(scores, epsilon) {
    const mean = sum(scores) / scores.length;
    const dr_grpo = scores.map((score) => score - mean);
    const std = Math.sqrt(sum(dr_grpo.map((x) => x * x)) / (scores.length - 1));
    const rloo = scores.map((score) => score - (sum(scores) - score) / (scores.length - 1));
    return { mean, std, rloo, dr_grpo, grpo: dr_grpo.map((x) => x / (std + epsilon)) };
  }

  return { compute_gae, compute_ppo_loss, estimate_kl, softmax, sampling_distribution, entropy, mean_ratio, group_advantages };
})();
