"""Training steps of six models, beside torch, inductor and JAX."""
