"""The corpus is data: it holds files that look like tests, and worse."""

collect_ignore = ["adversarial"]
