"""The Tensor Engine cycle by cycle."""
