"""A trained run to replies."""
