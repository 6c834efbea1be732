"""Figures of everything that is measured: ``style`` first, then one module per subject."""
