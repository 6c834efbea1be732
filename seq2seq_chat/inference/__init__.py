"""From a trained run to replies."""
