"""The workloads that a person predicts, one module a topic; each engine's kinds stand side by side."""
