/* The playgrounds: what each shows. The arithmetic is in arithmetic.js, the controls in controls.js. */
"use strict";

// The response of the map and of lesson 4, and what the course's critic expects before each of its tokens.
const WORDS = ["the", "film", "was", "superb", "but", "the", "plot", "was", "weak", ".", "<eos>"];
const VALUES = [0.25, 0.26, 0.2, 0.22, 0.97, 1.05, 0.97, 0.94, 1.05, 0.25, 0.48];

function credit(root) {
  const values = VALUES.map((value, t) => ({ name: `value_${t}`, label: `value before ${t + 1} "${WORDS[t]}"`, min: -1, max: 2, step: 0.01, value }));
  playground(root, {
    controls: [
      { name: "gamma", label: "gamma", min: 0, max: 1, step: 0.01, value: 1 },
      { name: "lam", label: "lam", min: 0, max: 1, step: 0.01, value: 0.95 },
      { name: "score", label: "score at the end", min: -2, max: 2, step: 0.01, value: 0.48 },
      ...values,
    ],
    draw(state, figure, set) {
      const rewards = WORDS.map((_, t) => (t === WORDS.length - 1 ? state.score : 0));
      const given = WORDS.map((_, t) => state[`value_${t}`]);
      const { td_errors, advantages, returns } = arithmetic.compute_gae(rewards, given, state.gamma, state.lam);
      const largest = Math.max(1, Math.ceil(Math.max(...[...td_errors, ...advantages].map(Math.abs))));
      const range = { x: [-0.6, WORDS.length - 0.4], y: [-largest, largest], names: WORDS, ticks: 4 };
      const above = chart(figure, { ...range, y: [-2, 2], height: 190, ylabel: "values (drag) and returns", title: "The critic's values and the returns of each token; the table has the numbers" });
      line(above, given.map((value, t) => [t, value]), "line-a");
      returns.forEach((value, t) => dot(above, t, value, "dot-b"));
      given.forEach((value, t) => draggable(dot(above, t, value, "dot-a"), above, (moved) => set(`value_${t}`, moved)));
      const below = chart(figure, { ...range, height: 220, ylabel: "TD errors and advantages", title: "TD errors and advantages of each token; the table has the numbers" });
      WORDS.forEach((_, t) => {
        bar(below, below.at_x(t) - below.unit * 0.17, below.unit * 0.3, td_errors[t], "fill-c");
        bar(below, below.at_x(t) + below.unit * 0.17, below.unit * 0.3, advantages[t], "fill-a");
      });
      legend(figure, [["fill-a", "values; advantages"], ["fill-b", "returns"], ["fill-c", "TD errors"]]);
      table(figure, ["", ...WORDS], [["rewards", ...rewards], ["values", ...given], ["TD error", ...td_errors], ["advantages", ...advantages], ["returns", ...returns]]);
      const best = td_errors.indexOf(Math.max(...td_errors));
      if (td_errors[best] <= 0) return "No token raised the critic's estimate.";
      const worst = td_errors.indexOf(Math.min(...td_errors));
      return `"${WORDS[best]}" raised the critic's estimate most, by ${shown(td_errors[best])}: this is its TD error. ` +
        `"${WORDS[worst]}" lowered it most, by ${shown(-td_errors[worst])}. With lam = ${shown(state.lam)} the tokens before them ` +
        `share in both: "${WORDS[best]}" itself has the advantage ${shown(advantages[best])}.`;
    },
  });
}

function clip(root) {
  playground(root, {
    controls: [
      { name: "ratio", label: "ratio, new over old probability", min: 0.1, max: 2.5, step: 0.01, value: 1.5 },
      { name: "advantage", label: "advantage", min: -2, max: 2, step: 0.1, value: 1 },
      { name: "clip_epsilon", label: "clip_epsilon", min: 0.05, max: 0.5, step: 0.01, value: 0.2 },
    ],
    draw({ ratio, advantage, clip_epsilon }, figure) {
      const now = arithmetic.compute_ppo_loss(ratio, advantage, clip_epsilon);
      const largest = Math.max(1, Math.ceil(2.5 * Math.abs(advantage)));
      const axes = chart(figure, { x: [0, 2.5], y: advantage < 0 ? [-largest, 0] : [0, largest], ticks: largest, xticks: 5, height: 280, xlabel: "ratio", ylabel: "objective (maximized)", title: "The clipped objective against the ratio; the sentence above it says what it does here" });
      const from = axes.at_x(1 - clip_epsilon), to = axes.at_x(1 + clip_epsilon);
      axes.svg.prepend(shape("rect", { x: from, y: 26, width: to - from, height: 210, class: "band" }));
      const ratios = [0.01, 1 - clip_epsilon, 1, 1 + clip_epsilon, 2.5];
      line(axes, ratios.map((r) => [r, r * advantage]), "line-b dashed");
      line(axes, ratios.map((r) => [r, arithmetic.compute_ppo_loss(r, advantage, clip_epsilon).objective]), "line-a");
      dot(axes, ratio, now.objective, "dot-a");
      legend(figure, [["fill-a", "objective"], ["fill-b", "ratio × advantage, unclipped"], ["band", "1 ± clip_epsilon"]]);
      table(figure, ["", "now"], [["ratio × advantage", now.unclipped], ["objective", now.objective], ["loss", now.loss], ["derivative of the objective by log_prob", now.slope]]);
      if (advantage === 0) return "An advantage of 0: nothing to gain, and no gradient.";
      if (now.slope === 0) return "Clipped: moving further in this direction gains nothing, so the gradient is 0.";
      const outside = ratio > 1 + clip_epsilon || ratio < 1 - clip_epsilon;
      const way = now.slope > 0 ? "more" : "less";
      return `${outside ? "Outside the interval, but it moved the wrong way" : "Inside the interval"}: the gradient makes this token ${way} likely.`;
    },
  });
}

const POLICY = [0.5, 0.3, 0.15, 0.05], REFERENCE = [0.25, 0.25, 0.25, 0.25];

function estimators(root) {
  const control = (model, label) => (value, word) => ({ name: `${model}_${word}`, label: `${label}, word ${word}`, min: 0.01, max: 1, step: 0.01, value });
  playground(root, {
    controls: [...POLICY.map(control("p", "policy")), ...REFERENCE.map(control("q", "reference"))],
    draw(state, figure, set) {
      const read = (model) => {
        const weights = POLICY.map((_, word) => state[`${model}_${word}`]);
        const total = weights.reduce((a, b) => a + b);
        return weights.map((weight) => weight / total);
      };
      const p = read("p"), q = read("q");
      const kl = arithmetic.estimate_kl(p, q);
      const axes = chart(figure, { x: [-0.6, 3.6], y: [0, 1], names: ["word 0", "word 1", "word 2", "word 3"], ylabel: "probability (drag)", title: "Probabilities of four words under policy and reference; the table has the estimates" });
      const total = (model) => POLICY.reduce((all, _, word) => all + state[`${model}_${word}`], 0);
      p.forEach((_, word) => [["p", p, -0.18, "fill-a"], ["q", q, 0.18, "fill-b"]].forEach(([model, of, shift, kind]) => {
        const drawn = bar(axes, axes.at_x(word) + axes.unit * shift, axes.unit * 0.32, of[word], kind);
        draggable(drawn, axes, (moved) => {
          const others = total(model) - state[`${model}_${word}`];
          const wanted = Math.min(Math.max(moved, 0.01), 0.97);
          set(`${model}_${word}`, (others * wanted) / (1 - wanted));
        });
      }));
      legend(figure, [["fill-a", "policy"], ["fill-b", "reference"]]);
      const rows = ["k1", "k2", "k3"].map((name) => [name, ...kl[name], kl.mean[name], kl.deviation[name]]);
      table(figure, ["", "word 0", "word 1", "word 2", "word 3", "mean", "std"], [["policy", ...p, "", ""], ["reference", ...q, "", ""], ...rows]);
      return `KL(policy || reference) is ${shown(kl.mean.k1, 3)} nats. k1 and k3 have this mean, k2 has ${shown(kl.mean.k2, 3)}; ` +
        `the standard deviation of k1 is ${shown(kl.deviation.k1, 3)}, of k3 ${shown(kl.deviation.k3, 3)}.`;
    },
  });
}

const VOCABULARY = { superb: 3.1, good: 2.6, great: 2.5, fine: 1.7, dull: 1.2, weak: 0.8, long: 0.1, the: -0.6, of: -1.4, plot: -2.3 };

function sampling(root) {
  const words = Object.keys(VOCABULARY), logits = Object.values(VOCABULARY);
  playground(root, {
    controls: [
      { name: "temperature", label: "temperature", min: 0.1, max: 3, step: 0.05, value: 1 },
      { name: "top_k", label: "top_k (0 keeps all)", min: 0, max: 10, step: 1, value: 0 },
      { name: "top_p", label: "top_p (1 keeps all)", min: 0.05, max: 1, step: 0.05, value: 1 },
    ],
    draw({ temperature, top_k, top_p }, figure) {
      const before = arithmetic.softmax(logits.map((logit) => logit / temperature));
      const after = arithmetic.sampling_distribution(logits, temperature, top_k, top_p);
      const narrow = figure.clientWidth < 520;
      const axes = chart(figure, { x: [-0.6, 9.6], y: [0, 1], names: narrow ? words.map((_, i) => i) : words, ylabel: "probability", title: "Probabilities of ten words before and after truncation; the table has the numbers" });
      words.forEach((_, word) => {
        bar(axes, axes.at_x(word) - axes.unit * 0.2, axes.unit * 0.36, before[word], "fill-c");
        bar(axes, axes.at_x(word) + axes.unit * 0.2, axes.unit * 0.36, after[word], "fill-a");
      });
      legend(figure, [["fill-c", "softmax(logits / temperature)"], ["fill-a", "what is drawn from"]]);
      table(figure, ["", "logit", "before", "drawn from"], words.map((word, i) => [narrow ? `${i} ${word}` : word, logits[i], before[i], after[i]]));
      const kept = after.filter((p) => p > 0).length;
      const mass = before.reduce((all, p, i) => all + (after[i] > 0 ? p : 0), 0);
      return `${kept} of ${words.length} words are left; they had ${shown(100 * mass, 0)} % of the probability. ` +
        `Entropy ${shown(arithmetic.entropy(after))} nats. A log-probability taken without the truncation is too low by ${shown(-Math.log(mass))} nats.`;
    },
  });
}

const LOG_RATIOS = [0.1, -0.3, 0.2, 0.4, -0.1, 0.3];
const WAYS = {
  multiply: "exp(x) * mask: 0 × NaN is NaN, and 0 × inf as well",
  choose: "torch.where(mask, exp(x), 0): the value is right, but the gradient is 0 × NaN",
  fill: "exp(x.masked_fill(~mask, 0)): nothing under the mask is computed with",
};

function masks(root) {
  playground(root, {
    controls: [
      { name: "real", label: "real tokens", min: 1, max: 6, step: 1, value: 4 },
      { name: "padding", label: "log-ratio at padding", value: "nan", choices: [["0", "0"], ["3", "3"], ["inf", "inf"], ["nan", "NaN"]] },
      { name: "way", label: "how the mask is used", value: "multiply", choices: [["multiply", "multiply after"], ["choose", "where after"], ["fill", "masked_fill before"]] },
    ],
    draw({ real, padding, way }, figure) {
      const at_padding = { 0: 0, 3: 3, inf: Infinity, nan: NaN }[padding];
      const mask = LOG_RATIOS.map((_, t) => t < real);
      const log_ratios = LOG_RATIOS.map((x, t) => (mask[t] ? x : at_padding));
      const { ratios, parts, mean, gradient } = arithmetic.mean_ratio(log_ratios, mask, way);
      const head = ["", ...LOG_RATIOS.map((_, t) => `${t}`)];
      table(figure, head, [["mask", ...mask.map(String)], ["log-ratio x", ...log_ratios], ["ratio", ...ratios], ["in the sum", ...parts], ["gradient by x", ...gradient]]);
      const leaked = gradient.some(Number.isNaN);
      const verdict = Number.isNaN(mean) ? "NaN has reached the value." : leaked ? "The value is right, but NaN is in the gradient: after one step every weight is NaN." : "Nothing has leaked.";
      return `${WAYS[way]}. Mean ratio: ${shown(mean, 3)}. ${verdict}`;
    },
  });
}

function overoptimization(root) {
  const { runs, updates, prompts } = recorded;
  const last = updates.length - 1;
  playground(root, {
    controls: [
      { name: "run", label: "KL coefficient", min: 0, max: runs.length - 1, step: 1, value: 0, show: (run) => `${runs[run].kl_coef}` },
      { name: "at", label: "updates done", min: 0, max: last, step: 1, value: last, show: (at) => `${updates[at]}` },
    ],
    draw({ run, at }, figure) {
      const chosen = runs[run];
      const top = Math.max(...runs.flatMap((other) => [...other.proxy, ...other.gold]));
      const axes = chart(figure, { x: [0, updates[last]], y: [-0.5, Math.ceil(2 * top) / 2], height: 280, xlabel: "updates", ylabel: "gold (2 at best) and proxy", title: "Gold and proxy reward over the updates of one run; the sentence above it has the numbers" });
      for (const other of runs) line(axes, updates.map((update, i) => [update, other.gold[i]]), "line-a faint");
      line(axes, updates.map((update, i) => [update, chosen.proxy[i]]), "line-b");
      line(axes, updates.map((update, i) => [update, chosen.gold[i]]), "line-a");
      dot(axes, updates[at], chosen.proxy[at], "dot-b");
      dot(axes, updates[at], chosen.gold[at], "dot-a");
      legend(figure, [["fill-a", "gold reward; faint: with other coefficients"], ["fill-b", "proxy reward"]]);
      table(figure, ["prompt", "response at this point"], prompts.map((prompt, i) => [prompt, chosen.responses[at][i]]));
      return `KL coefficient ${chosen.kl_coef}, after ${updates[at]} updates: gold ${shown(chosen.gold[at])}, proxy ${shown(chosen.proxy[at])}, ` +
        `KL ${shown(chosen.kl[at], 1)} nats, ${shown(100 * chosen.valid[at], 0)} % of the responses are grammatical.`;
    },
  });
}

function groups(root) {
  const scores = [1, 1, 1, 5].map((value, i) => ({ name: `score_${i}`, label: `score of response ${i + 1}`, min: -1, max: 5, step: 0.01, value }));
  playground(root, {
    controls: [...scores, { name: "epsilon", label: "epsilon", min: 0.0001, max: 2, step: 0.0001, value: 0.0001 }],
    draw(state, figure) {
      const given = scores.map(({ name }) => state[name]);
      const { mean, std, rloo, dr_grpo, grpo } = arithmetic.group_advantages(given, state.epsilon);
      const largest = Math.max(1, Math.ceil(Math.max(...[...rloo, ...grpo].map(Math.abs))));
      const names = given.map((_, i) => `response ${i + 1}`);
      const axes = chart(figure, { x: [-0.6, 3.6], y: [-largest, largest], names, ticks: 4, height: 260, ylabel: "advantage", title: "The advantages of four responses by three methods; the table has the numbers" });
      given.forEach((_, i) => [[rloo, -0.25, "fill-a"], [dr_grpo, 0, "fill-b"], [grpo, 0.25, "fill-c"]].forEach(([of, shift, kind]) => {
        bar(axes, axes.at_x(i) + axes.unit * shift, axes.unit * 0.2, of[i], kind);
      }));
      legend(figure, [["fill-a", "RLOO"], ["fill-b", "Dr. GRPO"], ["fill-c", "GRPO"]]);
      table(figure, ["", ...names], [["score", ...given], ["RLOO", ...rloo], ["Dr. GRPO", ...dr_grpo], ["GRPO", ...grpo]]);
      if (std === 0) return "All scores are equal: every advantage is 0, and the group teaches nothing.";
      return `The mean is ${shown(mean)}, the standard deviation ${shown(std)}. RLOO is 4/3 of Dr. GRPO, and GRPO is Dr. GRPO divided by ${shown(std + state.epsilon)}.`;
    },
  });
}

const PLAYGROUNDS = { credit, clip, estimators, sampling, masks, overoptimization, groups };
document.addEventListener("DOMContentLoaded", () => {
  for (const root of document.querySelectorAll("[data-playground]")) PLAYGROUNDS[root.dataset.playground](root);
});
