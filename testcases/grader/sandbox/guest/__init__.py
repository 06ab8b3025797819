"""The far side of the wall. These files run in the sandbox, beside hostile code."""
