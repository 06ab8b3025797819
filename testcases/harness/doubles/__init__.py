"""Stand-ins that suites share: table policies and critics, word tokenizers, backbones with known outputs."""
