"""A bundled agent that speaks the dialects from the other side, on a scripted timeline."""
