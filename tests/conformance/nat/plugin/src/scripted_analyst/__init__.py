"""A NeMo Agent Toolkit workflow without a model: the question says what it does."""
